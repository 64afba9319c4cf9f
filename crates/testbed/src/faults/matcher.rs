use serde::Deserialize;

use crate::request::RequestInfo;

/// Matches requests. A property that isn't set matches every request.
///
/// Requests without a resource (discovery, health) are matched only if just clients and verbs are
/// set.
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
    /// Matches all requests.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests with this verb, such as `list` or `update`.
    pub fn verb(verb: &str) -> Self {
        Self::verbs([verb])
    }

    /// Matches requests with one of these verbs.
    pub fn verbs<'a>(verbs: impl IntoIterator<Item = &'a str>) -> Self {
        Self { verbs: verbs.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Matches requests of this client: see [`RequestInfo::client`]. This method and those below
    /// can be called repeatedly to match several values.
    #[must_use]
    pub fn client(mut self, client: &str) -> Self {
        self.clients.push(client.to_owned());
        self
    }

    /// Matches this API group. Empty for the core group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// Matches this resource, by its plural name.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Matches this subresource. Empty for the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresources.push(subresource.to_owned());
        self
    }

    /// Matches this namespace. Empty for cluster-scoped requests and for those across all
    /// namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Matches the object with this name. Empty for requests without a name.
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
            && of_resource.iter().all(|(accepted, actual)| {
                accepted.is_empty() || has_resource && has(accepted, actual)
            })
    }
}

fn has(accepted: &[String], actual: &str) -> bool {
    accepted.is_empty() || accepted.iter().any(|one| one == actual)
}
