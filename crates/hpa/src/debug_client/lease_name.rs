//! The lease of a controller, by name.

use hpa_controller::k8s::FieldManager;

use crate::args::ControllerArguments;

/// The name of kube-controller-manager's field manager and lease.
pub(crate) const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// The default name and namespace of the lease of hpa-rs.
const DEFAULT_LEASE: &str = "hpa-controller";
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Namespace and name of the lease of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl LeaseName {
    /// The lease of kube-controller-manager.
    pub(crate) fn built_in() -> Self {
        Self { namespace: DEFAULT_NAMESPACE.to_owned(), name: KUBE_CONTROLLER_MANAGER.to_owned() }
    }

    /// Chooses name and namespace: each from the flags, else from the lease that most field
    /// managers of statuses name, else the default.
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
        let most_named =
            named.into_iter().rev().max_by_key(|(_, count)| *count).map(|(lease, _)| lease);
        let most_named = most_named.unwrap_or_else(|| Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name: DEFAULT_LEASE.to_owned(),
        });
        Self {
            namespace: arguments.controller_namespace.clone().unwrap_or(most_named.namespace),
            name: arguments.controller_lease.clone().unwrap_or(most_named.name),
        }
    }
}
