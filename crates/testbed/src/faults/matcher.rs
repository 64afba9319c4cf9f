use serde::Deserialize;

use crate::request::RequestInfo;

/// Which requests a fault is for. Of what is not named, all.
///
/// Requests that are for no resource (discovery, health) are met only by what names nothing but clients and verbs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    clients: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<String>,
    subresources: Vec<String>,
    namespaces: Vec<String>,
    names: Vec<String>,
}

impl Match {
    /// All requests.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with this verb, such as `list` or `update`.
    pub fn verb(verb: &str) -> Self {
        Self::verbs([verb])
    }

    /// Requests with one of these verbs.
    pub fn verbs<'a>(verbs: impl IntoIterator<Item = &'a str>) -> Self {
        Self { verbs: verbs.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Of this client: see [`RequestInfo::client`]. More than one may be given; so it is with what follows.
    #[must_use]
    pub fn client(mut self, client: &str) -> Self {
        self.clients.push(client.to_owned());
        self
    }

    /// For this API group, empty for the core one.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// For this resource, by its plural name.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// For this subresource, empty for the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresources.push(subresource.to_owned());
        self
    }

    /// In this namespace; empty for what is asked for across all or belongs to none.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// For the object of this name; empty for requests that name none.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    pub(super) fn matches(&self, request: &RequestInfo) -> bool {
        let of_resource = [
            (&self.groups, &request.group),
            (&self.resources, &request.resource),
            (&self.subresources, &request.subresource),
            (&self.namespaces, &request.namespace),
            (&self.names, &request.name),
        ];
        let has_resource = !request.resource.is_empty();
        has(&self.clients, &request.client)
            && has(&self.verbs, &request.verb)
            && of_resource
                .iter()
                .all(|(wanted, own)| wanted.is_empty() || has_resource && has(wanted, own))
    }
}

fn has(wanted: &[String], own: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| one == own)
}
