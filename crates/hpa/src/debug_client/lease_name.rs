//! Which lease the controller holds.

use hpa_controller::k8s::FieldManager;

use crate::args::ControllerArguments;

/// The name of the lease, if nothing says otherwise.
const DEFAULT_LEASE: &str = "hpa-controller";
/// Where to look for it then.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// The lease of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl LeaseName {
    /// The lease that the flags name, or else the field managers of statuses. The one that most of
    /// them name counts.
    pub(crate) fn choose<'a>(
        arguments: &ControllerArguments,
        managers: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut named: Vec<(Self, usize)> = Vec::new();
        for (namespace, name) in managers.into_iter().filter_map(FieldManager::parse_lease) {
            let lease = Self { namespace: namespace.to_owned(), name: name.to_owned() };
            match named.iter_mut().find(|(other, _)| *other == lease) {
                Some((_, count)) => *count += 1,
                None => named.push((lease, 1)),
            }
        }
        let most = named.into_iter().rev().max_by_key(|(_, count)| *count).map(|(lease, _)| lease);
        let most = most.unwrap_or_else(|| Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name: DEFAULT_LEASE.to_owned(),
        });
        Self {
            namespace: arguments.controller_namespace.clone().unwrap_or(most.namespace),
            name: arguments.controller_lease.clone().unwrap_or(most.name),
        }
    }
}
