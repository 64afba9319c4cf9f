//! The lease of a controller, by namespace and name.
//!
//! - A status *names* a lease if its field manager has the lease's key. A tenant can forge the
//!   field managers of its own statuses.
//! - The *own* namespace of a lease is the one that it is in. A tenant can create leases in its own
//!   namespaces.
//! - A named lease is *local* if only autoscalers of its own namespace name it, and it isn't usual.
//! - The *usual* leases have the default name, in the default namespace and in that of the
//!   documentation. Tenants must not be able to create leases there.
//! - A *documented* lease is in the namespace of the documentation.
//! - A *lost* lease is missing, has no holder, or has expired.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use hpa_controller::k8s::{FieldManager, KUBE_CONTROLLER_MANAGER};

use crate::args::ControllerArguments;

/// The default name and namespace of the lease of hpa-rs.
const DEFAULT_LEASE: &str = "hpa-controller";
const DEFAULT_NAMESPACE: &str = "kube-system";

/// The namespace of the lease in the documentation. The default of `hpa run` is another one.
const DOCUMENTED_NAMESPACE: &str = "autoscaling";

/// A lease that the field managers of statuses name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedLease {
    pub(crate) key: LeaseKey,
    /// The namespaces of the autoscalers whose statuses name it.
    pub(crate) namespaces: BTreeSet<String>,
}

/// Namespace and name of the lease of a controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl LeaseKey {
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

    /// Whether it is one of [`Self::usual`].
    pub(crate) fn is_usual(&self) -> bool {
        Self::usual().contains(self)
    }

    /// Whether it is in the namespace of one of [`Self::usual`]. The lease of
    /// kube-controller-manager is.
    pub(crate) fn is_in_usual_namespace(&self) -> bool {
        Self::usual().iter().any(|usual| usual.namespace == self.namespace)
    }

    /// Whether the instance with this lease may have taken over from the one with the lost lease.
    /// The lease must be in the same namespace or in a usual one, because a tenant may have created
    /// one in another namespace.
    pub(crate) fn may_have_replaced(&self, lost: &Self) -> bool {
        self.namespace == lost.namespace || self.is_in_usual_namespace()
    }

    /// The lease that a field manager names.
    pub(crate) fn of_manager(manager: &str) -> Option<Self> {
        let (namespace, name) = FieldManager::parse_lease(manager)?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The field manager that names the lease.
    pub(crate) fn manager(&self) -> FieldManager {
        FieldManager::for_lease(&self.namespace, &self.name)
    }

    /// The leases that the field managers of statuses name, each once. Each item of `statuses` is
    /// the namespace of an autoscaler and the field manager of its status.
    ///
    /// Sorted by:
    ///
    /// 1. The number of namespaces that name the lease, most first. Namespaces count, not statuses,
    ///    because a tenant can forge the field managers of its own statuses.
    /// 2. Usual leases first.
    /// 3. The number of those namespaces without the lease's own, most first.
    /// 4. The first mention in `statuses`.
    pub(crate) fn of_statuses<'a>(
        statuses: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Vec<NamedLease> {
        let mut named = BTreeMap::<Self, (usize, BTreeSet<String>)>::new();
        for (index, (namespace, manager)) in statuses.into_iter().enumerate() {
            if let Some(lease) = Self::of_manager(manager) {
                let (_, namespaces) = named.entry(lease).or_insert((index, BTreeSet::new()));
                namespaces.insert(namespace.to_owned());
            }
        }
        let named = named.into_iter();
        let mut named: Vec<(usize, NamedLease)> = named
            .map(|(key, (index, namespaces))| (index, NamedLease { key, namespaces }))
            .collect();
        named.sort_by_key(|(index, lease)| {
            let (count, is_usual) = (lease.namespaces.len(), lease.key.is_usual());
            (Reverse(count), Reverse(is_usual), Reverse(lease.other_namespace_count()), *index)
        });
        named.into_iter().map(|(_, lease)| lease).collect()
    }

    /// Chooses name and namespace: each from the flags, else from `named`, else the default.
    pub(crate) fn choose(arguments: &ControllerArguments, named: Option<&Self>) -> Self {
        let first = named.cloned().unwrap_or_else(Self::default_of_hpa_rs);
        Self {
            namespace: arguments.controller_namespace.clone().unwrap_or(first.namespace),
            name: arguments.controller_lease.clone().unwrap_or(first.name),
        }
    }
}

/// Formats the lease as `namespace/name`.
impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl NamedLease {
    /// Whether only autoscalers of the lease's own namespace name it, and it is no usual one. A
    /// tenant can create such a lease and name it in its own statuses, so it says nothing about
    /// autoscalers of other namespaces.
    pub(crate) fn is_local(&self) -> bool {
        !self.key.is_usual() && self.other_namespace_count() == 0
    }

    /// The number of namespaces, without the lease's own, whose autoscalers name the lease.
    fn other_namespace_count(&self) -> usize {
        self.namespaces.iter().filter(|namespace| **namespace != self.key.namespace).count()
    }
}
