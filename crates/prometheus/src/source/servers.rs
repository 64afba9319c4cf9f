//! The servers that rules refer to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::client::{
    Authentication, Client, RequestObserver, Settings, SettingsError, Verb, parse_header,
};
use crate::rules::{
    Compat, Config,
    config::{Finding, Server},
};

use super::permissions::ServerPermissions;

/// The mistakes in `servers`, and in the rules' references to them, that can be found without a
/// connection and without reading a file: at most one for each server and each reference. A source
/// can't be created from a file that has one.
pub fn server_mistakes(config: &Config, permissions: &ServerPermissions) -> Vec<Finding> {
    // The empty name stands for the default server.
    let mut names = BTreeSet::from([""]);
    let mut mistakes = Vec::new();
    for (index, server) in config.servers.iter().enumerate() {
        let name = &*server.name;
        let (field, problem) = if name.is_empty() {
            ("", "a server needs a name".to_owned())
        } else if !names.insert(name) {
            (".name", format!("there are two servers with the name {name:?}"))
        } else if let Err(mistake) = settings(server, Compat::Off, permissions) {
            mistake
        } else {
            continue;
        };
        mistakes.push(Finding::mistake(config, format!("servers[{index}]{field}"), problem));
    }
    for (path, name) in references(config) {
        if !names.contains(name) {
            let problem = format!("there is no server {name:?} in `servers`");
            mistakes.push(Finding::mistake(config, path, problem));
        }
    }
    mistakes
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

    /// Replaces the servers by the servers of a rules file. Unchanged servers keep their clients.
    pub(super) fn with_config(&self, config: &Config, compat: Compat) -> Result<Self, Finding> {
        if let Some(mistake) = server_mistakes(config, &self.permissions).into_iter().next() {
            return Err(mistake);
        }
        let mut named = BTreeMap::new();
        for (index, server) in config.servers.iter().enumerate() {
            let client = match self.named.get(&server.name) {
                Some((current, client)) if current == server => client.clone(),
                _ => self.client(server, compat).map_err(|(field, problem)| {
                    Finding::mistake(config, format!("servers[{index}]{field}"), problem)
                })?,
            };
            named.insert(server.name.clone(), (server.clone(), client));
        }
        let servers = Self { named, ..self.clone() };
        for (path, server) in references(config) {
            if servers.get(server).is_none() {
                let problem = "the rule names no `server`, and --prometheus-url is not given";
                return Err(Finding::mistake(config, path, problem.to_owned()));
            }
        }
        Ok(servers)
    }

    /// A client of a server, or the invalid field with its problem.
    fn client(&self, server: &Server, compat: Compat) -> Result<Client, (&'static str, String)> {
        let settings = settings(server, compat, &self.permissions)?;
        let client = Client::new(settings, self.observer.clone());
        client.map_err(|source| ("", unusable(&server.name, &source)))
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
    let invalid =
        |field: &'static str| move |source: SettingsError| (field, unusable(&server.name, &source));
    let mut settings = Settings::new(&server.name, &server.url).map_err(invalid(".url"))?;
    if !server.verb.is_empty() {
        settings.verb = server.verb.parse::<Verb>().map_err(invalid(".verb"))?;
    }
    let headers = server.headers.iter().map(|header| {
        // `parse_header` accepts a name without a value.
        if !header.contains('=') {
            return Err(SettingsError::invalid_header(header));
        }
        parse_header(header)
    });
    settings.headers =
        headers.collect::<Result<_, SettingsError>>().map_err(invalid(".headers"))?;
    settings.username = (!server.username.is_empty()).then(|| server.username.clone());
    if !server.timeout.is_zero() {
        settings.query_timeout = server.timeout;
    }
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
    settings.validate().map_err(invalid(""))?;
    Ok(settings)
}
