//! The servers that rules refer to.

use std::{collections::BTreeMap, sync::Arc};

use crate::client::{
    Authentication, Client, RequestObserver, Settings, SettingsError, parse_header,
};
use crate::rules::{
    Compat, Config,
    config::{Position, Server},
};

use super::permissions::ServerPermissions;

/// An invalid server of a rules file, or a rule's reference to a server that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{path}: {problem}", position.map(|at| format!("{at}: ")).unwrap_or_default())]
pub struct ServerError {
    /// The path of the invalid field.
    pub path: String,
    /// The position of the field in the file.
    pub position: Option<Position>,
    pub problem: String,
}

/// Clients of the servers, by name.
#[derive(Clone)]
pub struct Servers {
    default: Option<Client>,
    pub(super) named: BTreeMap<String, (Server, Client)>,
    observer: Arc<dyn RequestObserver>,
    permissions: ServerPermissions,
}

impl Servers {
    /// Creates a set with only the default server, for rules that name none. Servers of a rules
    /// file may use only credentials in that file, unless [`Self::permitting`] allows more.
    pub fn new(default: Option<Client>, observer: Arc<dyn RequestObserver>) -> Self {
        let permissions = ServerPermissions::default();
        Self { default, named: BTreeMap::new(), observer, permissions }
    }

    /// Permits the servers of the rules file to use more credentials.
    #[must_use]
    pub fn permitting(self, permissions: ServerPermissions) -> Self {
        Self { permissions, ..self }
    }

    /// Replaces the servers by those of a rules file. Unchanged servers keep their clients.
    pub(super) fn with_config(&self, config: &Config, compat: Compat) -> Result<Self, ServerError> {
        let error = |path: String, problem: String| {
            let position = config.positions.get(&path);
            ServerError { path, position, problem }
        };
        let mut named = BTreeMap::new();
        for (index, server) in config.servers.iter().enumerate() {
            let path = |field: &str| format!("servers[{index}]{field}");
            if server.name.is_empty() {
                return Err(error(path(""), "a server needs a name".to_owned()));
            }
            let name = &server.name;
            let client = match self.named.get(name) {
                Some((current, client)) if current == server => client.clone(),
                _ => {
                    let settings = settings(server, compat, &self.permissions)
                        .map_err(|(field, problem)| error(path(field), problem))?;
                    Client::new(settings, self.observer.clone())
                        .map_err(|source| error(path(""), unusable(name, &source)))?
                }
            };
            if named.insert(name.clone(), (server.clone(), client)).is_some() {
                let problem = format!("there are two servers with the name {name:?}");
                return Err(error(path(".name"), problem));
            }
        }
        let servers = Self { named, ..self.clone() };
        for (path, server) in references(config) {
            servers.check_known(server).map_err(|problem| error(path, problem))?;
        }
        Ok(servers)
    }

    fn check_known(&self, name: &str) -> Result<(), String> {
        Err(match self.get(name) {
            Some(_) => return Ok(()),
            None if name.is_empty() => {
                "the rule names no `server`, and --prometheus-url is not given".to_owned()
            }
            None => format!("there is no server {name:?} in `servers`"),
        })
    }

    /// The client of the server with this name. An empty name stands for the default server.
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

/// The server names that rules refer to, with the path of the field.
fn references(config: &Config) -> Vec<(String, &str)> {
    let lists = [("rules", &config.rules), ("externalRules", &config.external_rules)];
    let discovery = lists.into_iter().flat_map(|(list, rules)| {
        rules.iter().enumerate().map(move |(index, rule)| {
            (format!("{}.server", config.rule_name(list, index)), &*rule.server)
        })
    });
    let resource = config.resource_rules.as_ref();
    let resource = resource.map(|rules| ("resourceRules.server".to_owned(), &*rules.server));
    discovery.chain(resource).collect()
}

fn unusable(name: &str, error: &SettingsError) -> String {
    format!("the server {name:?} can't be used: {error}")
}

/// The settings of a server, or the invalid field with its problem.
fn settings(
    server: &Server,
    compat: Compat,
    permissions: &ServerPermissions,
) -> Result<Settings, (&'static str, String)> {
    let file = |field, path: &str| {
        permissions.credential_file(server, path).map_err(|error| (field, error))
    };
    let in_cluster = permissions.uses_service_account(server);
    let in_cluster = in_cluster.map_err(|problem| (".authInCluster", problem))?;
    let mut settings =
        basic_settings(server).map_err(|source| ("", unusable(&server.name, &source)))?;
    settings.authentication = match file(".authConfig", &server.auth_config)? {
        Some(kubeconfig) => Authentication::Kubeconfig(kubeconfig),
        None if in_cluster => Authentication::InCluster,
        None => Authentication::None,
    };
    settings.ca_file = file(".caFile", &server.ca_file)?;
    settings.client_certificate_file = file(".clientTLSCertFile", &server.client_tls_cert_file)?;
    settings.client_key_file = file(".clientTLSKeyFile", &server.client_tls_key_file)?;
    settings.token_file = file(".tokenFile", &server.token_file)?;
    settings.password_file = file(".passwordFile", &server.password_file)?;
    settings.compat = compat;
    Ok(settings)
}

/// The settings that don't depend on permissions.
fn basic_settings(server: &Server) -> Result<Settings, SettingsError> {
    let mut settings = Settings::new(&server.name, &server.url)?;
    if !server.verb.is_empty() {
        settings.verb = server.verb.parse()?;
    }
    let headers = server.headers.iter().map(|header| parse_header(header));
    settings.headers = headers.collect::<Result<_, _>>()?;
    settings.username = (!server.username.is_empty()).then(|| server.username.clone());
    if !server.timeout.is_zero() {
        settings.query_timeout = server.timeout;
    }
    Ok(settings)
}
