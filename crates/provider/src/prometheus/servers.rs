//! The servers that rules refer to.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use hpa_prometheus::{
    Authentication, Client, RequestObserver, Settings, SettingsError, parse_header,
};
use hpa_rules::{
    Compat, Config,
    config::{Position, Server},
};

/// Clients of the servers, by name.
#[derive(Clone)]
pub struct Servers {
    default: Option<Client>,
    pub(super) named: BTreeMap<String, (Server, Client)>,
    observer: Arc<dyn RequestObserver>,
}

/// Why the servers of a rules file are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{path}: {problem}", position.map(|at| format!("{at}: ")).unwrap_or_default())]
pub struct ServerError {
    /// The path of the field that is wrong.
    pub path: String,
    /// Where the field is in the file.
    pub position: Option<Position>,
    /// What is wrong.
    pub problem: ServerProblem,
}

/// What is wrong with the servers of a rules file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerProblem {
    /// A server has no name.
    #[error("a server needs a name")]
    NoName,
    /// Two servers have the same name.
    #[error("there are two servers with the name {0:?}")]
    Duplicate(String),
    /// The settings are wrong.
    #[error("the server {name:?} can't be used: {source}")]
    Settings {
        /// The name of the server.
        name: String,
        /// What is wrong.
        source: SettingsError,
    },
    /// A rule refers to a server that the file doesn't have.
    #[error("there is no server {0:?} in `servers`")]
    Unknown(String),
    /// A rule names no server, and there is no default.
    #[error("the rule names no `server`, and there is no server on the command line")]
    NoDefault,
}

impl Servers {
    /// The server of rules that name none.
    pub fn new(default: Option<Client>, observer: Arc<dyn RequestObserver>) -> Self {
        Self { default, named: BTreeMap::new(), observer }
    }

    /// Adds the servers of a file. Clients of servers that haven't changed stay.
    pub(super) fn with_config(&self, config: &Config, compat: Compat) -> Result<Self, ServerError> {
        let error = |path: String, problem| {
            let position = config.positions.get(&path);
            ServerError { path, position, problem }
        };
        let mut named = BTreeMap::new();
        for (index, server) in config.servers.iter().enumerate() {
            let path = |field: &str| format!("servers[{index}]{field}");
            if server.name.is_empty() {
                return Err(error(path(""), ServerProblem::NoName));
            }
            let name = || server.name.clone();
            let client = match self.named.get(&server.name) {
                Some((known, client)) if known == server => client.clone(),
                _ => settings(server, compat)
                    .and_then(|settings| Client::new(settings, self.observer.clone()))
                    .map_err(|source| {
                        error(path(""), ServerProblem::Settings { name: name(), source })
                    })?,
            };
            if named.insert(name(), (server.clone(), client)).is_some() {
                return Err(error(path(".name"), ServerProblem::Duplicate(name())));
            }
        }
        let servers =
            Self { default: self.default.clone(), named, observer: self.observer.clone() };
        for (path, server) in references(config) {
            servers.check(server).map_err(|problem| error(path, problem))?;
        }
        Ok(servers)
    }

    fn check(&self, name: &str) -> Result<(), ServerProblem> {
        match self.get(name) {
            Some(_) => Ok(()),
            None if name.is_empty() => Err(ServerProblem::NoDefault),
            None => Err(ServerProblem::Unknown(name.to_owned())),
        }
    }

    /// The client of a server. An empty name means the default.
    pub fn get(&self, name: &str) -> Option<&Client> {
        if name.is_empty() {
            return self.default.as_ref();
        }
        self.named.get(name).map(|(_, client)| client)
    }

    /// All clients, the default first.
    pub fn all(&self) -> impl Iterator<Item = &Client> {
        self.default.iter().chain(self.named.values().map(|(_, client)| client))
    }
}

/// The names of servers in a file, with the path of the field.
fn references(config: &Config) -> Vec<(String, &str)> {
    let of_rules = |list: &str, rules: &'_ [hpa_rules::config::DiscoveryRule]| {
        let paths = (0..rules.len()).map(|index| format!("{list}[{index}].server"));
        paths.collect::<Vec<_>>()
    };
    let custom = of_rules("rules", &config.rules).into_iter().zip(&config.rules);
    let external =
        of_rules("externalRules", &config.external_rules).into_iter().zip(&config.external_rules);
    let resource = config.resource_rules.as_ref();
    let resource = resource.map(|rules| ("resourceRules.server".to_owned(), &*rules.server));
    let discovery = custom.chain(external).map(|(path, rule)| (path, &*rule.server));
    discovery.chain(resource).collect()
}

fn settings(server: &Server, compat: Compat) -> Result<Settings, SettingsError> {
    let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
    let mut settings = Settings::new(&server.name, &server.url)?;
    if !server.verb.is_empty() {
        settings.verb = server.verb.parse()?;
    }
    let headers = server.headers.iter().map(|header| parse_header(header));
    settings.headers = headers.collect::<Result<_, _>>()?;
    settings.authentication = match (server.auth_in_cluster, path(&server.auth_config)) {
        (_, Some(kubeconfig)) => Authentication::Kubeconfig(kubeconfig),
        (Some(true), None) => Authentication::InCluster,
        _ => Authentication::None,
    };
    settings.ca_file = path(&server.ca_file);
    settings.client_certificate_file = path(&server.client_tls_cert_file);
    settings.client_key_file = path(&server.client_tls_key_file);
    settings.token_file = path(&server.token_file);
    settings.username = (!server.username.is_empty()).then(|| server.username.clone());
    settings.password_file = path(&server.password_file);
    if !server.timeout.is_zero() {
        settings.query_timeout = server.timeout;
    }
    settings.compat = compat;
    Ok(settings)
}
