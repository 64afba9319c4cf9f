//! Finds the lease of hpa-rs.

use std::iter;

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;

use super::{KubeControllerManager, Leases, NamespaceWriters, status_writers};
use crate::{
    args::ControllerArguments,
    debug_client::{LeaseHolder, LeaseName, Unavailable},
    listed_autoscalers::list_readable_autoscalers,
};

/// The maximum number of leases that are read, of those that statuses name.
const MAX_LEASES: usize = 8;

/// A lease of hpa-rs.
#[derive(Clone, Debug)]
pub(crate) struct ReadLease {
    pub(crate) name: LeaseName,
    pub(crate) holder: Result<LeaseHolder, Unavailable>,
}

/// The lease of hpa-rs, as far as it could be found.
pub(crate) struct ControllerLease {
    pub(crate) name: LeaseName,
    pub(crate) holder: Result<LeaseHolder, Unavailable>,
    /// The namespaces in which the lease was looked for. Empty if its namespace is known: a flag or
    /// a status names it.
    pub(crate) searched_namespaces: Vec<String>,
    /// The other leases that statuses name: those of earlier or further instances. At most
    /// `MAX_LEASES`, plus held ones of the usual name.
    pub(crate) others: Vec<ReadLease>,
}

impl ControllerLease {
    /// Reads the leases that the flags or the field managers of statuses name. The lease is that of
    /// the flags, else the one that `manager` names, else the one that `others` name in most
    /// namespaces, else one in the usual namespaces. Each of `others` is a namespace and the field
    /// manager of a status in it. A status that doesn't change keeps its writer, so if no instance
    /// holds that lease, one that is held precedes it.
    pub(crate) async fn find<'a>(
        client: &Client,
        flags: &ControllerArguments,
        manager: Option<&'a str>,
        others: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Self::find_named(client, flags, named_leases(manager, others)).await
    }

    /// Like [`Self::find`]. If no lease is held, reads the statuses of all namespaces too, as far
    /// as the user may list them.
    pub(crate) async fn find_in_cluster<'a>(
        client: &Client,
        flags: &ControllerArguments,
        manager: Option<&'a str>,
        others: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let found = Self::find(client, flags, manager, others).await;
        if flags.controller_namespace.is_some() || found.may_be_held(Timestamp::now()) {
            return found;
        }
        let autoscalers = list_readable_autoscalers(client, None).await;
        let named = named_leases(manager, status_writers(&autoscalers));
        if found.has_read(&named) {
            return found;
        }
        Self::find_named(client, flags, named).await
    }

    /// Reads the leases that statuses name, in the order of precedence.
    async fn find_named(
        client: &Client,
        flags: &ControllerArguments,
        statuses: Vec<LeaseName>,
    ) -> Self {
        let first = LeaseName::choose(flags, &statuses);
        if flags.controller_namespace.is_none() && statuses.is_empty() {
            return Self::search(client, first).await;
        }
        let is_fixed = flags.controller_namespace.is_some() || flags.controller_lease.is_some();
        let names = in_order(Some(first), statuses);
        let mut leases = ReadLease::read_all(client, &names).await;
        let now = Timestamp::now();
        if !is_fixed && leases.iter().all(|lease| lease.state(now) < LeaseState::Unknown) {
            let usual = LeaseName::usual().into_iter();
            let unread: Vec<_> = usual.filter(|name| !names.contains(name)).collect();
            let read = ReadLease::read_all(client, &unread).await.into_iter();
            leases.extend(read.filter(|lease| lease.state(now) == LeaseState::Held));
        }
        let chosen = if is_fixed { 0 } else { preferred(&leases, now) };
        let ReadLease { name, holder } = leases.remove(chosen);
        Self { name, holder, searched_namespaces: Vec::new(), others: leases }
    }

    /// Looks for the lease in the usual namespaces, and prefers one that is held.
    async fn search(client: &Client, name: LeaseName) -> Self {
        let other = name.in_documented_namespace();
        let searched_namespaces = vec![name.namespace.clone(), other.namespace.clone()];
        let first = ReadLease::read(client, name).await;
        let other = ReadLease::read(client, other).await;
        let now = Timestamp::now();
        let is_other = other.state(now) > first.state(now);
        let ReadLease { name, holder } = if is_other { other } else { first };
        Self { name, holder, searched_namespaces, others: Vec::new() }
    }

    /// Whether an instance of hpa-rs may hold one of the leases.
    fn may_be_held(&self, now: Timestamp) -> bool {
        let others = self.others.iter().map(|lease| &lease.holder);
        let mut holders = iter::once(&self.holder).chain(others);
        holders.any(|holder| LeaseState::of(holder, now) >= LeaseState::Unknown)
    }

    /// Whether these leases were read.
    fn has_read(&self, names: &[LeaseName]) -> bool {
        let is_read = |name: &LeaseName| {
            *name == self.name || self.others.iter().any(|other| other.name == *name)
        };
        names.iter().all(is_read)
    }

    /// The leases of both controllers at this time.
    pub(crate) fn with<'a>(
        &'a self,
        built_in: &'a KubeControllerManager,
        writers: &'a NamespaceWriters,
    ) -> Leases<'a> {
        let Self { name, holder, searched_namespaces, others } = self;
        let now = Timestamp::now();
        Leases { name, holder, searched_namespaces, others, writers, built_in, now }
    }
}

impl ReadLease {
    async fn read(client: &Client, name: LeaseName) -> Self {
        let holder = LeaseHolder::read(client, &name).await;
        Self { name, holder }
    }

    /// Reads leases at once.
    async fn read_all(client: &Client, names: &[LeaseName]) -> Vec<Self> {
        let reads: Vec<_> = names.iter().map(|name| Self::read(client, name.clone())).collect();
        join_all(reads).await
    }

    fn state(&self, now: Timestamp) -> LeaseState {
        LeaseState::of(&self.holder, now)
    }
}

/// The leases that `manager` and then the other statuses name, at most [`MAX_LEASES`].
fn named_leases<'a>(
    manager: Option<&str>,
    others: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<LeaseName> {
    in_order(manager.and_then(LeaseName::of_manager), LeaseName::of_statuses(others))
}

/// `first` and then the others, at most [`MAX_LEASES`].
fn in_order(first: Option<LeaseName>, others: Vec<LeaseName>) -> Vec<LeaseName> {
    let others: Vec<_> = others.into_iter().filter(|other| first.as_ref() != Some(other)).collect();
    first.into_iter().chain(others).take(MAX_LEASES).collect()
}

/// The index of the lease to check: the first one, or if that is lost, one that may be held.
fn preferred(leases: &[ReadLease], now: Timestamp) -> usize {
    let states = leases.iter().map(|lease| lease.state(now));
    let states: Vec<LeaseState> = states.collect();
    if states.first().is_some_and(|first| *first >= LeaseState::Unknown) {
        return 0;
    }
    let position = |wanted| states.iter().position(|state| *state == wanted);
    position(LeaseState::Held).or_else(|| position(LeaseState::Unknown)).unwrap_or_default()
}

/// Whether an instance holds a lease.
pub(super) fn is_held(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> bool {
    LeaseState::of(holder, now) == LeaseState::Held
}

/// Whether no instance holds a lease: it is missing, has no holder or has expired. One with an
/// unreadable time counts as expired.
pub(super) fn is_lost(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> bool {
    LeaseState::of(holder, now) < LeaseState::Unknown
}

/// The state of a lease, in the order of precedence in a search. One that can't be read may be
/// held, so it precedes one that is known not to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LeaseState {
    Missing,
    /// It has no holder or has expired.
    Lost,
    /// It can't be read.
    Unknown,
    Held,
}

impl LeaseState {
    fn of(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> Self {
        match holder {
            Ok(holder) if !holder.is_expired(now) => Self::Held,
            Ok(_) | Err(Unavailable::NotHeld { .. }) => Self::Lost,
            Err(Unavailable::NoLease(_)) => Self::Missing,
            Err(_) => Self::Unknown,
        }
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
                has_unreadable_time: false,
                duration: SignedDuration::from_secs(15),
                transitions: 0,
            })
        };
        let unread = || Err(Unavailable::Unreachable("refused".to_owned()));
        let ascending = [Err(Unavailable::NoLease(name())), renewed(900), unread(), renewed(995)];
        let states = ascending.each_ref().map(|holder| LeaseState::of(holder, now));
        assert!(states.is_sorted_by(|left, right| left < right), "{states:?}");
        let released = Err(Unavailable::NotHeld { lease: name(), released: None });
        assert_eq!(LeaseState::of(&released, now), LeaseState::Lost);

        let index = |holders: [Result<LeaseHolder, Unavailable>; 3]| {
            let leases = holders.map(|holder| ReadLease { name: name(), holder });
            preferred(&leases, now)
        };
        let missing = || Err(Unavailable::NoLease(name()));
        assert_eq!(index([unread(), renewed(995), missing()]), 0, "most statuses name it");
        assert_eq!(index([renewed(900), unread(), renewed(995)]), 2);
        assert_eq!(index([missing(), renewed(900), unread()]), 2);
        assert_eq!(index([missing(), renewed(900), missing()]), 0);
    }
}
