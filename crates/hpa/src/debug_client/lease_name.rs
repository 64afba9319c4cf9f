//! The lease of a controller, by name.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use hpa_controller::k8s::FieldManager;

use crate::args::ControllerArguments;

/// The name of kube-controller-manager's field manager and lease.
pub(crate) const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// The default name and namespace of the lease of hpa-rs.
const DEFAULT_LEASE: &str = "hpa-controller";
const DEFAULT_NAMESPACE: &str = "kube-system";

/// The namespace of the lease in the documentation. The default of `hpa run` is another one.
const DOCUMENTED_NAMESPACE: &str = "autoscaling";

/// Namespace and name of the lease of a controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl LeaseName {
    /// The lease of kube-controller-manager.
    pub(crate) fn built_in() -> Self {
        Self { namespace: DEFAULT_NAMESPACE.to_owned(), name: KUBE_CONTROLLER_MANAGER.to_owned() }
    }

    fn default_of_hpa_rs() -> Self {
        Self { namespace: DEFAULT_NAMESPACE.to_owned(), name: DEFAULT_LEASE.to_owned() }
    }

    /// The lease of the same name in the namespace of the documentation.
    pub(crate) fn in_documented_namespace(&self) -> Self {
        Self { namespace: DOCUMENTED_NAMESPACE.to_owned(), name: self.name.clone() }
    }

    /// The leases of the default name in the usual namespaces.
    pub(crate) fn usual() -> [Self; 2] {
        let default = Self::default_of_hpa_rs();
        [default.in_documented_namespace(), default]
    }

    /// The lease that a field manager names.
    pub(crate) fn of_manager(manager: &str) -> Option<Self> {
        let (namespace, name) = FieldManager::parse_lease(manager)?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The leases that the field managers of statuses name, each once. Each item is the namespace of
    /// an autoscaler and the field manager of its status. Leases that are named in most namespaces
    /// come first, so that a tenant who forges field managers doesn't outweigh other namespaces.
    pub(crate) fn of_statuses<'a>(
        statuses: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Vec<Self> {
        let mut named = BTreeMap::<Self, (usize, BTreeSet<&str>)>::new();
        for (index, (namespace, manager)) in statuses.into_iter().enumerate() {
            if let Some(lease) = Self::of_manager(manager) {
                let (_, namespaces) = named.entry(lease).or_insert((index, BTreeSet::new()));
                namespaces.insert(namespace);
            }
        }
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_by_key(|(_, (index, namespaces))| (Reverse(namespaces.len()), *index));
        named.into_iter().map(|(lease, _)| lease).collect()
    }

    /// Chooses name and namespace: each from the flags, else from the first of `named`, else the
    /// default.
    pub(crate) fn choose(arguments: &ControllerArguments, named: &[Self]) -> Self {
        let first = named.first().cloned().unwrap_or_else(Self::default_of_hpa_rs);
        Self {
            namespace: arguments.controller_namespace.clone().unwrap_or(first.namespace),
            name: arguments.controller_lease.clone().unwrap_or(first.name),
        }
    }
}
