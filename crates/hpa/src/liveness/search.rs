//! Finds the lease of hpa-rs.
//!
//! | kind of lease | definition | who may create it | autoscalers for which it may answer |
//! |---|---|---|---|
//! | usual | one of [`LeaseKey::usual`] | operators | all |
//! | named | statuses name it | tenants | those in the namespaces of these statuses |
//! | local | only statuses of its own namespace name it | tenants | those in its namespace |
//! | first | the one to check if it is held | tenants | as a named one; all if a flag names it |
//! | unnamed | no status names it | operators | none; reports have its scope |
//! | lost | it has no holder or has expired | anyone | none; a held lease replaces it |
//! | released | lost, and only overwritten statuses name it | anyone | none |
//!
//! A lease can be of several kinds.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, iter, time::Duration};

use futures::future::join_all;
use hpa_controller::AutoscalerApi;
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use super::{
    HolderResult, KubeControllerManager, Leases, NamespaceWriters, is_recent_write, status_writers,
};
use crate::{
    args::ControllerArguments,
    autoscaler_name::{describe_unserved, is_not_served},
    debug_client::{
        DebugClient, Instance, KUBE_CONTROLLER_MANAGER, LeaderPod, LeaseHolder, LeaseKey,
        NamedLease, Unavailable,
    },
    kubectl,
    listed_autoscalers::list_readable_autoscalers,
};

/// The maximum number of leases that are read, of those that statuses name.
const MAX_LEASES: usize = 8;

/// A lease of hpa-rs.
#[derive(Clone, Debug)]
pub(crate) struct ReadLease {
    pub(crate) name: LeaseKey,
    pub(crate) holder: HolderResult,
}

/// The lease of hpa-rs to check, as far as it could be found, and its other leases.
pub(crate) struct ControllerLease {
    pub(crate) name: LeaseKey,
    pub(crate) holder: HolderResult,
    /// The namespaces in which the lease was looked for. Empty if its namespace is known: a flag or
    /// a status names it.
    pub(crate) searched_namespaces: Vec<String>,
    /// The leases of earlier or further instances. At most `MAX_LEASES` of each kind: those that
    /// statuses name, those that no status names, and lost ones that only overwritten statuses
    /// name.
    pub(crate) others: Vec<ReadLease>,
    /// The named leases that say nothing about autoscalers of other namespaces than their own, see
    /// [`NamedLease::is_local`]. Without that of `--controller-namespace`.
    pub(crate) local: Vec<LeaseKey>,
    /// Whether the debug API of the holder may answer for all of the autoscalers: a flag names the
    /// namespace of the lease, or it is a usual one, or statuses of each namespace name the lease.
    pub(crate) may_answer_for_all: bool,
}

/// The autoscaler whose controller is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchedAutoscaler<'a> {
    pub(crate) namespace: &'a str,
    /// The field manager that stored the status last.
    pub(crate) manager: Option<&'a str>,
}

impl ControllerLease {
    /// Reads the leases that the flags or the field managers of statuses name. The lease is that of
    /// the flags, else that of `autoscaler`, else the one that `statuses` name in most namespaces,
    /// else one in the usual namespaces.
    ///
    /// If no instance holds that lease, a held lease replaces it, because a status that doesn't
    /// change keeps its writer. The name of the held lease must be a usual one, or statuses of the
    /// same namespaces must name it.
    pub(crate) async fn find(
        client: &Client,
        flags: &ControllerArguments,
        autoscaler: Option<SearchedAutoscaler<'_>>,
        statuses: &[AutoscalerStatusWriter],
    ) -> Self {
        let found = Self::find_named(client, flags, autoscaler, statuses).await;
        found.with_unnamed(client, flags, statuses).await
    }

    /// Like [`Self::find`]. If no lease is held, reads the statuses of all namespaces too, as far
    /// as the user may list them.
    pub(crate) async fn find_in_cluster(
        client: &Client,
        flags: &ControllerArguments,
        autoscaler: Option<SearchedAutoscaler<'_>>,
        statuses: &[AutoscalerStatusWriter],
    ) -> Self {
        let mut found = Self::find_named(client, flags, autoscaler, statuses).await;
        if flags.controller_namespace.is_none() && !found.may_be_held() {
            let all = status_writers(&list_readable_autoscalers(client, None).await);
            if !named_leases(&all).iter().all(|lease| found.has_read(&lease.key)) {
                found = Self::find_named(client, flags, autoscaler, &all).await;
            }
        }
        found.with_unnamed(client, flags, statuses).await
    }

    /// Adds leases that no status names: while no status changes, an instance with a new lease
    /// stores none. One of these must apply:
    ///
    /// - No instance holds the lease.
    /// - kube-controller-manager stored a status.
    /// - An instance no longer handles an autoscaler whose status it stored.
    ///
    /// Adds the held leases, and the expired ones whose holders handled autoscalers whose status
    /// kube-controller-manager stored last. Lists only the usual namespaces and that of the lease:
    /// tenants can create leases elsewhere.
    async fn with_unnamed(
        mut self,
        client: &Client,
        flags: &ControllerArguments,
        statuses: &[AutoscalerStatusWriter],
    ) -> Self {
        let is_needed = is_lost(&self.holder)
            || has_built_in_writer(statuses)
            || self.excludes_own_status(statuses);
        if flags_name_lease(flags) || !is_needed {
            return self;
        }
        let mut namespaces = BTreeSet::from(LeaseKey::usual().map(|usual| usual.namespace));
        if !self.local.contains(&self.name) {
            namespaces.insert(self.name.namespace.clone());
        }
        let lists: Vec<_> =
            namespaces.iter().map(|namespace| LeaseHolder::list(client, namespace)).collect();
        let holders = join_all(lists).await.into_iter().flatten();
        let is_relevant =
            |holder: &LeaseHolder| !holder.is_expired() || covers_built_in_writes(holder, statuses);
        let unnamed = holders.filter(|holder| is_relevant(holder) && !self.has_read(&holder.lease));
        let mut unnamed: Vec<_> = unnamed.collect();
        unnamed.sort_by_key(LeaseHolder::is_expired);
        let unnamed = unnamed.into_iter().take(MAX_LEASES);
        self.others.extend(
            unnamed.map(|holder| ReadLease { name: holder.lease.clone(), holder: Ok(holder) }),
        );
        self
    }

    /// Reads the leases that statuses name, in the order of precedence.
    async fn find_named(
        client: &Client,
        flags: &ControllerArguments,
        autoscaler: Option<SearchedAutoscaler<'_>>,
        statuses: &[AutoscalerStatusWriter],
    ) -> Self {
        let named: &[NamedLease] = &named_leases(statuses);
        let first_named = first_named(autoscaler, named);
        let first = LeaseKey::choose(flags, first_named.as_ref());
        let found = if flags.controller_namespace.is_none() && first_named.is_none() {
            let found = Self::search(client, first).await;
            let keys = ordered_keys(None, named).into_iter().filter(|key| *key != found.name);
            let others = ReadLease::read_all(client, &keys.collect::<Vec<_>>()).await;
            Self { others, ..found }
        } else {
            Self::read(client, flags, &first, autoscaler, named).await
        };
        let is_trusted =
            |name: &LeaseKey| flags.controller_namespace.is_some() && *name == found.name;
        let local = named.iter().filter(|lease| lease.is_local() && !is_trusted(&lease.key));
        let local = local.map(|lease| lease.key.clone()).collect();
        let is_usual = found.name.is_usual() || !found.searched_namespaces.is_empty();
        let may_answer_for_all =
            is_trusted(&found.name) || is_usual || is_named_in_all(&found.name, named, statuses);
        let mut found = Self { local, may_answer_for_all, ..found };
        let released = found.read_released(client, statuses).await;
        found.others.extend(released);
        found
    }

    /// Reads the leases that only recent overwritten statuses name. Returns those that are missing
    /// or have no holder: the controllers that stored these statuses have stopped. Others may be a
    /// tenant's.
    async fn read_released(
        &self,
        client: &Client,
        statuses: &[AutoscalerStatusWriter],
    ) -> Vec<ReadLease> {
        let now = kubectl::now();
        let writes = statuses.iter().flat_map(|status| &status.overwritten);
        let recent = writes.filter(|write| is_recent_write(Some(write.at), now));
        let named: BTreeSet<_> =
            recent.filter_map(|write| LeaseKey::of_manager(&write.manager)).collect();
        let mut unread: Vec<_> = named.into_iter().filter(|key| !self.has_read(key)).collect();
        unread.sort_by_key(|key| !key.is_in_usual_namespace());
        unread.truncate(MAX_LEASES);
        let leases = ReadLease::read_all(client, &unread).await.into_iter();
        leases.filter(|lease| lease.holder.is_err() && is_lost(&lease.holder)).collect()
    }

    /// Reads `first` and the other named leases, and chooses one.
    async fn read(
        client: &Client,
        flags: &ControllerArguments,
        first: &LeaseKey,
        autoscaler: Option<SearchedAutoscaler<'_>>,
        named: &[NamedLease],
    ) -> Self {
        let is_fixed = flags_name_lease(flags);
        let keys = ordered_keys(Some(first), named);
        let mut leases = ReadLease::read_all(client, &keys).await;
        let may_answer =
            |name: &LeaseKey| !is_fixed && may_answer_for(name, first, autoscaler, named);
        let may_be_chosen =
            |lease: &ReadLease| may_answer(&lease.name) && lease.state() >= LeaseState::Unknown;
        if !is_fixed && !leases.iter().any(may_be_chosen) {
            let usual = LeaseKey::usual().into_iter();
            let unread: Vec<_> = usual.filter(|key| !keys.contains(key)).collect();
            let read = ReadLease::read_all(client, &unread).await.into_iter();
            leases.extend(read.filter(|lease| lease.state() == LeaseState::Held));
        }
        let chosen = preferred_index(&leases, may_answer);
        Self::new(leases.remove(chosen), Vec::new(), leases)
    }

    /// Looks for the lease in the usual namespaces, and prefers one that is held.
    async fn search(client: &Client, name: LeaseKey) -> Self {
        let other = name.in_documented_namespace();
        let searched_namespaces = vec![name.namespace.clone(), other.namespace.clone()];
        let first = ReadLease::read(client, name).await;
        let other = ReadLease::read(client, other).await;
        let is_other = other.state() > first.state();
        Self::new(if is_other { other } else { first }, searched_namespaces, Vec::new())
    }

    /// A lease that was read, before it is compared with the statuses.
    fn new(lease: ReadLease, searched_namespaces: Vec<String>, others: Vec<ReadLease>) -> Self {
        let ReadLease { name, holder } = lease;
        let (local, may_answer_for_all) = (Vec::new(), false);
        Self { name, holder, searched_namespaces, others, local, may_answer_for_all }
    }

    /// The holders of the leases, that of the checked one first.
    fn holders(&self) -> impl Iterator<Item = &HolderResult> {
        let others = self.others.iter().map(|lease| &lease.holder);
        iter::once(&self.holder).chain(others)
    }

    /// Reads the pod of the checked lease's holder.
    pub(crate) async fn leader_pod(&self, client: &Client) -> Result<LeaderPod, Unavailable> {
        match &self.holder {
            Ok(holder) => holder.read_leader_pod(client).await,
            Err(error) => Err(error.clone()),
        }
    }

    /// The debug API at the URL of the flags, or else that of the checked lease's holder, whose pod
    /// is `leader`. `leader` is only awaited without a URL.
    pub(crate) async fn debug_client(
        &self,
        client: &Client,
        flags: &ControllerArguments,
        request_timeout: Duration,
        leader: impl Future<Output = Result<LeaderPod, Unavailable>>,
    ) -> Result<DebugClient, Unavailable> {
        match &flags.controller_url {
            Some(url) => DebugClient::for_url(url, request_timeout),
            None => DebugClient::for_leader(client, &self.name, &leader.await?).await,
        }
    }

    /// Reads the debug API at the URL of the flags, or else that of the checked lease's holder,
    /// whose pod is `leader`. Sends no request to a holder that a tenant may have invented.
    pub(crate) async fn instance(
        &self,
        client: &Client,
        flags: &ControllerArguments,
        request_timeout: Duration,
        leader: impl Future<Output = Result<LeaderPod, Unavailable>>,
    ) -> Result<Instance, Unavailable> {
        let leader = async {
            let leader = leader.await?;
            let unconfirmed = || Unavailable::Unconfirmed(self.name.clone());
            self.may_answer_for_all.then_some(leader).ok_or_else(unconfirmed)
        };
        let api = self.debug_client(client, flags, request_timeout, leader).await?;
        api.instance().await
    }

    /// The lead of the controller's clock over the API server's: that of the instance that answers,
    /// or else that of the holder of the checked lease. An expired lease, or one that a tenant may
    /// have created, doesn't count.
    ///
    /// A clock counts as behind only if both the instance and the lease show it. A simulated
    /// controller can be days behind, but its lease doesn't show that. An API server that hangs
    /// stores the renewal of the lease late, but the instance doesn't show that.
    pub(crate) fn clock_lead(&self, instance_lead: Option<SignedDuration>) -> SignedDuration {
        let holder = self.holder.as_ref().ok().filter(|_| self.may_answer_for_all);
        let holder = holder.filter(|holder| !holder.is_expired());
        let holder_lead = holder.map(|holder| holder.clock_lead).unwrap_or_default();
        match instance_lead {
            Some(lead) if !lead.is_negative() => lead,
            lead => lead.unwrap_or_default().max(holder_lead),
        }
    }

    /// A clause if the user may not read the checked lease.
    pub(crate) fn describe_hidden(&self) -> Option<String> {
        let error = self.holder.as_ref().err();
        let forbidden = error.filter(|error| matches!(error, Unavailable::Forbidden { .. }))?;
        Some(format!("whether a controller is active is not known: {forbidden}"))
    }

    /// A sentence without a full stop if the holder of the checked lease published that it handles
    /// the custom API, but the API isn't served. `None` if a status is of that API, or if the
    /// holder may not answer for all autoscalers.
    pub(crate) async fn missing_api(
        &self,
        client: &Client,
        statuses: &[AutoscalerStatusWriter],
    ) -> Option<String> {
        let api = AutoscalerApi::Custom;
        let holder = self.holder.as_ref().ok().filter(|holder| !holder.is_expired())?;
        let handles = holder.scope.as_ref()?.apis.contains(&api) && self.may_answer_for_all;
        let has_statuses = statuses.iter().any(|status| status.key.api == api);
        if !handles || has_statuses || !is_not_served(client, api).await {
            return None;
        }
        let unserved = describe_unserved(api);
        Some(format!("{unserved}, but the holder of the lease {} handles it", self.name))
    }

    /// Whether an instance of hpa-rs may hold one of the leases.
    fn may_be_held(&self) -> bool {
        self.holders().any(|holder| LeaseState::of(holder) >= LeaseState::Unknown)
    }

    /// Whether the holder of a lease published that it doesn't handle an autoscaler whose status
    /// names the lease.
    fn excludes_own_status(&self, statuses: &[AutoscalerStatusWriter]) -> bool {
        statuses.iter().any(|status| {
            let named = LeaseKey::of_manager(&status.manager);
            let mut holders = self.holders().flatten();
            let holder = holders.find(|holder| Some(&holder.lease) == named.as_ref());
            let scope = holder.and_then(|holder| holder.scope.as_ref());
            scope.is_some_and(|scope| !scope.handles(status.key.api, Some(&status.key.namespace)))
        })
    }

    fn has_read(&self, name: &LeaseKey) -> bool {
        *name == self.name || self.others.iter().any(|other| other.name == *name)
    }

    /// Combines the leases of hpa-rs with those of kube-controller-manager and with the writers of
    /// the statuses, which were read at `now`.
    pub(crate) fn with<'a>(
        &'a self,
        built_in: &'a KubeControllerManager,
        writers: &'a NamespaceWriters,
        now: Timestamp,
    ) -> Leases<'a> {
        Leases { lease: self, writers, built_in, now }
    }
}

impl ReadLease {
    async fn read(client: &Client, name: LeaseKey) -> Self {
        let holder = LeaseHolder::read(client, &name).await;
        Self { name, holder }
    }

    /// Reads leases at once.
    async fn read_all(client: &Client, names: &[LeaseKey]) -> Vec<Self> {
        let reads: Vec<_> = names.iter().map(|name| Self::read(client, name.clone())).collect();
        join_all(reads).await
    }

    fn state(&self) -> LeaseState {
        LeaseState::of(&self.holder)
    }
}

/// Whether kube-controller-manager stored a status last. An hpa-rs that no status names may have
/// replaced it since.
fn has_built_in_writer(statuses: &[AutoscalerStatusWriter]) -> bool {
    statuses.iter().any(|status| status.manager == KUBE_CONTROLLER_MANAGER)
}

/// Whether the holder published that it handles an autoscaler whose status kube-controller-manager
/// stored last.
fn covers_built_in_writes(holder: &LeaseHolder, statuses: &[AutoscalerStatusWriter]) -> bool {
    let mut built_in = statuses.iter().filter(|status| status.manager == KUBE_CONTROLLER_MANAGER);
    holder.scope.as_ref().is_some_and(|scope| {
        built_in.any(|status| scope.handles(status.key.api, Some(&status.key.namespace)))
    })
}

/// Whether a flag names the lease. Then no other one answers.
fn flags_name_lease(flags: &ControllerArguments) -> bool {
    flags.controller_namespace.is_some() || flags.controller_lease.is_some()
}

/// The lease that the status of `autoscaler` names, or else the first one of `named` that statuses
/// of its namespace name. For all autoscalers, the first one of `named`, which is in the order of
/// [`LeaseKey::of_statuses`].
fn first_named(
    autoscaler: Option<SearchedAutoscaler<'_>>,
    named: &[NamedLease],
) -> Option<LeaseKey> {
    let Some(SearchedAutoscaler { namespace, manager }) = autoscaler else {
        return named.first().map(|lease| lease.key.clone());
    };
    let is_of_namespace = |lease: &&NamedLease| lease.namespaces.contains(namespace);
    let first_of_namespace = || named.iter().find(is_of_namespace).map(|lease| lease.key.clone());
    manager.and_then(LeaseKey::of_manager).or_else(first_of_namespace)
}

/// Whether the lease may answer instead of `first`: it is a usual one, or statuses of all affected
/// namespaces name it, so its instance handles them. The affected namespaces are that of
/// `autoscaler`, or else those in which statuses name `first`.
fn may_answer_for(
    name: &LeaseKey,
    first: &LeaseKey,
    autoscaler: Option<SearchedAutoscaler<'_>>,
    named: &[NamedLease],
) -> bool {
    if name == first || name.is_usual() {
        return true;
    }
    let namespaces_of = |wanted: &LeaseKey| {
        named.iter().find(|lease| lease.key == *wanted).map(|lease| &lease.namespaces)
    };
    namespaces_of(name).is_some_and(|namespaces| match autoscaler {
        Some(autoscaler) => namespaces.contains(autoscaler.namespace),
        None => namespaces_of(first).is_some_and(|affected| affected.is_subset(namespaces)),
    })
}

/// Whether statuses of each namespace name the lease.
fn is_named_in_all(
    name: &LeaseKey,
    named: &[NamedLease],
    statuses: &[AutoscalerStatusWriter],
) -> bool {
    let namespaces = named.iter().find(|lease| lease.key == *name).map(|lease| &lease.namespaces);
    let is_in =
        |own: &BTreeSet<String>| statuses.iter().all(|status| own.contains(&*status.key.namespace));
    namespaces.is_some_and(is_in)
}

/// The leases that the field managers of statuses name, see [`LeaseKey::of_statuses`].
fn named_leases(statuses: &[AutoscalerStatusWriter]) -> Vec<NamedLease> {
    let statuses = statuses.iter();
    LeaseKey::of_statuses(statuses.map(|status| (&*status.key.namespace, status.manager.as_str())))
}

/// The keys of `first` and then of the others, at most [`MAX_LEASES`].
fn ordered_keys(first: Option<&LeaseKey>, others: &[NamedLease]) -> Vec<LeaseKey> {
    let others = others.iter().map(|lease| &lease.key).filter(|key| first != Some(*key));
    first.into_iter().chain(others).take(MAX_LEASES).cloned().collect()
}

/// The index of the lease to check: the first one, or if that is lost, one that may answer instead
/// and may be held.
fn preferred_index(leases: &[ReadLease], may_answer: impl Fn(&LeaseKey) -> bool) -> usize {
    let states = leases.iter().map(|lease| may_answer(&lease.name).then(|| lease.state()));
    let states: Vec<Option<LeaseState>> = states.collect();
    if states.first().copied().flatten() >= Some(LeaseState::Unknown) {
        return 0;
    }
    let position = |wanted| states.iter().position(|state| *state == Some(wanted));
    position(LeaseState::Held).or_else(|| position(LeaseState::Unknown)).unwrap_or_default()
}

/// Whether an instance held a lease when it was read.
pub(crate) fn is_held(holder: &HolderResult) -> bool {
    LeaseState::of(holder) == LeaseState::Held
}

/// Whether no instance holds a lease: it is missing, has no holder or has expired. One with an
/// unreadable time counts as expired.
pub(crate) fn is_lost(holder: &HolderResult) -> bool {
    LeaseState::of(holder) < LeaseState::Unknown
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
    fn of(holder: &HolderResult) -> Self {
        match holder {
            Ok(holder) if !holder.is_expired() => Self::Held,
            Ok(_) | Err(Unavailable::NotHeld { .. }) => Self::Lost,
            Err(Unavailable::NoLease(_)) => Self::Missing,
            Err(_) => Self::Unknown,
        }
    }
}
