//! Finds the lease of hpa-rs.

use hpa_controller::k8s::FieldManager;
use jiff::Timestamp;
use kube::Client;

use super::{KubeControllerManager, Leases};
use crate::{
    args::ControllerArguments,
    debug_client::{LeaseHolder, LeaseName, Unavailable},
    listed_autoscalers::list_readable_autoscalers,
};

/// The namespace of the lease in the documentation. The default of `hpa run` is another one.
const DOCUMENTED_NAMESPACE: &str = "autoscaling";

/// The lease of hpa-rs, as far as it could be found.
pub(crate) struct ControllerLease {
    pub(crate) name: LeaseName,
    pub(crate) holder: Result<LeaseHolder, Unavailable>,
    /// The namespaces in which the lease was looked for. Empty if a flag or a status names its
    /// namespace, so that it is known.
    pub(crate) searched_namespaces: Vec<String>,
}

impl ControllerLease {
    /// Reads the lease that the flags or the field managers of statuses name. If they name no
    /// namespace, looks for the lease in the usual ones, and prefers one that is held.
    pub(crate) async fn find<'a>(
        client: &Client,
        flags: &ControllerArguments,
        managers: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let managers: Vec<&str> = managers.into_iter().collect();
        let name = LeaseName::choose(flags, managers.iter().copied());
        let is_named = flags.controller_namespace.is_some()
            || managers.iter().any(|manager| FieldManager::parse_lease(manager).is_some());
        let holder = LeaseHolder::read(client, &name).await;
        if is_named {
            return Self { name, holder, searched_namespaces: Vec::new() };
        }
        let other = LeaseName { namespace: DOCUMENTED_NAMESPACE.to_owned(), ..name.clone() };
        let searched_namespaces = vec![name.namespace.clone(), other.namespace.clone()];
        let other_holder = LeaseHolder::read(client, &other).await;
        let now = Timestamp::now();
        let is_other = precedence(&other_holder, now) > precedence(&holder, now);
        let (name, holder) = if is_other { (other, other_holder) } else { (name, holder) };
        Self { name, holder, searched_namespaces }
    }

    /// Like [`Self::find`]. If the namespace is still not known and no lease is held, reads the
    /// statuses of all namespaces too, as far as the user may list them.
    pub(crate) async fn find_in_cluster<'a>(
        client: &Client,
        flags: &ControllerArguments,
        managers: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let found = Self::find(client, flags, managers).await;
        if found.searched_namespaces.is_empty() || is_held(&found.holder, Timestamp::now()) {
            return found;
        }
        let autoscalers = list_readable_autoscalers(client, None).await;
        let managers = autoscalers.iter().filter_map(|one| one.manager.as_deref());
        let managers: Vec<&str> =
            managers.filter(|manager| FieldManager::parse_lease(manager).is_some()).collect();
        if managers.is_empty() { found } else { Self::find(client, flags, managers).await }
    }

    /// The leases of both controllers at this time.
    pub(crate) fn with<'a>(&'a self, built_in: &'a KubeControllerManager) -> Leases<'a> {
        let Self { name, holder, searched_namespaces } = self;
        Leases { name, holder, searched_namespaces, built_in, now: Timestamp::now() }
    }
}

/// Whether an instance holds a lease.
pub(super) fn is_held(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> bool {
    holder.as_ref().is_ok_and(|holder| !holder.is_expired(now))
}

/// How much a lease shows about its controller. One that can't be read may be held, so it precedes
/// one that is known not to be held.
fn precedence(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> u8 {
    match holder {
        Ok(holder) if !holder.is_expired(now) => 3,
        Ok(_) | Err(Unavailable::NotHeld(_)) => 1,
        Err(Unavailable::NoLease(_)) => 0,
        Err(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn held_lease_precedes_one_that_is_unread_and_that_precedes_one_without_a_holder() {
        let name = || LeaseName { namespace: "a".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1000).expect("a time");
        let renewed = |second| {
            Ok(LeaseHolder {
                lease: name(),
                identity: "x_1".to_owned(),
                renewed: Timestamp::from_second(second).ok(),
                duration: SignedDuration::from_secs(15),
                transitions: 0,
            })
        };
        let ascending = [
            Err(Unavailable::NoLease(name())),
            renewed(900),
            Err(Unavailable::Unreachable("refused".to_owned())),
            renewed(995),
        ];
        let precedences = ascending.each_ref().map(|holder| precedence(holder, now));
        assert!(precedences.is_sorted_by(|left, right| left < right), "{precedences:?}");
        assert_eq!(precedence(&Err(Unavailable::NotHeld(name())), now), precedences[1]);
    }
}
