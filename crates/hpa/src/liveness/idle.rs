//! The finding that no controller acts on an autoscaler.

use std::{collections::BTreeMap, iter};

use hpa_controller::{AutoscalerApi, k8s::is_clearly_after};

use super::{
    ControllerLease, HolderResult, Leases, describe_lost_lease, describe_missing_lease, excludes,
    handles, scope_of,
    search::{is_held, is_lost},
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseKey, Unavailable},
    listed_autoscalers::ListedAutoscaler,
};

/// The finding that no controller acts on an autoscaler, as far as the leases and the writers of
/// statuses show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Idle {
    pub(crate) is_certain: bool,
    /// The cause, without the clauses of the other fields.
    pub(crate) cause: String,
    /// A clause about kube-controller-manager, which doesn't act either, as far as it is known.
    pub(crate) built_in: Option<String>,
    /// The result of the search for the lease of hpa-rs, if its namespace is not known.
    pub(crate) search: Option<String>,
    /// A clause about the other instances of hpa-rs that may act on the autoscaler.
    pub(crate) successor: Option<String>,
}

impl Idle {
    /// A sentence without a full stop. `autoscalers` is the text that names the autoscalers.
    pub(crate) fn sentence(&self, autoscalers: &str) -> String {
        let hint = if self.search.is_some() {
            "; if hpa-rs runs elsewhere, add --controller-namespace"
        } else {
            ""
        };
        format!("{}: {}{hint}", self.clause(autoscalers), self.reason())
    }

    /// The causes, the result of the search, and the clause about other instances of hpa-rs.
    pub(crate) fn reason(&self) -> String {
        let causes = iter::once(&self.cause).chain(&self.built_in);
        let parts = causes.chain(&self.search).chain(&self.successor);
        parts.map(String::as_str).collect::<Vec<_>>().join(", and ")
    }

    /// Like [`Self::sentence`], without the reason. Even a certain finding is only about the leases
    /// that were read: before an instance stores a status, no status names its lease, or shows that
    /// it runs without leader election.
    pub(crate) fn clause(&self, autoscalers: &str) -> String {
        let start = if self.is_certain {
            "No controller with a known lease"
        } else {
            "Maybe no controller"
        };
        format!("{start} acts on {autoscalers}")
    }
}

/// Groups values, such as the names of autoscalers, by the finding about each. Findings about the
/// two APIs may differ only in a clause about kube-controller-manager, which doesn't handle the
/// custom API. They become one finding, with that clause.
pub(crate) fn group_by_finding<T>(
    found: impl IntoIterator<Item = (Idle, T)>,
) -> Vec<(Idle, Vec<T>)> {
    let mut groups = BTreeMap::<Idle, Vec<T>>::new();
    for (idle, value) in found {
        groups.entry(idle).or_default().push(value);
    }
    let with_clause = groups.keys().filter(|idle| idle.built_in.is_some());
    for longer in with_clause.cloned().collect::<Vec<_>>() {
        let shorter = Idle { built_in: None, ..longer.clone() };
        if let Some(values) = groups.remove(&shorter) {
            groups.entry(longer).or_default().extend(values);
        }
    }
    groups.into_iter().collect()
}

impl Leases<'_> {
    /// Checks whether no controller acts on a listed autoscaler, with or without a status.
    pub(crate) fn idle_listed(&self, one: &ListedAutoscaler) -> Option<Idle> {
        let namespace = &one.hpa.metadata.namespace;
        match one.controller.name.as_deref() {
            Some(manager) => self.idle(one.api, namespace, manager),
            None if one.hpa.status.conditions.is_empty() => {
                self.idle_without_status(one.api, namespace)
            }
            None => None,
        }
    }

    /// Checks whether no controller acts on an autoscaler whose status the field manager `manager`
    /// stored last. `None` if one of these controllers may act:
    ///
    /// - that of the lease of `manager`, if the lease can't be read, was not read, or is held,
    ///   unless the holder published that it handles only other autoscalers
    /// - another hpa-rs that holds its lease and handles the namespace
    /// - kube-controller-manager, if it handles the autoscaler
    /// - a controller without a lease that has just stored a status in the namespace
    ///
    /// The finding is uncertain if a lease is missing, was only looked for in the usual namespaces,
    /// or has an unreadable time: its controller may run. It is also uncertain if another hpa-rs
    /// may handle the autoscaler, or a kube-controller-manager without a lease.
    pub(crate) fn idle(&self, api: AutoscalerApi, namespace: &str, manager: &str) -> Option<Idle> {
        let built_in_writes =
            api == AutoscalerApi::Core && self.built_in_writes_without_lease(Some(namespace));
        if built_in_writes || self.hpa_rs_writes_without_lease(api, Some(namespace)) {
            return None;
        }
        if manager == KUBE_CONTROLLER_MANAGER {
            return self.idle_after_built_in(namespace);
        }
        let (name, holder) = self.lease_of(manager)?;
        let excludes_it = is_held(holder) && excludes(holder, api, Some(namespace));
        let may_act = !is_lost(holder) && !excludes_it;
        if may_act || self.is_handled_by_hpa_rs(name, api, namespace) {
            return None;
        }
        let mut successor = self.describe_successor(api, namespace);
        let cause = if excludes_it {
            successor.take()
        } else {
            let replaced = self.describe_later_expiry(manager, api, namespace);
            replaced.or_else(|| describe_lost_lease(holder))
        };
        // The uninstallation of hpa-rs deletes the lease.
        let is_missing = cause.is_none();
        let missing = || format!("the lease that hpa-rs' status names, {name}, does not exist");
        let cause = cause.unwrap_or_else(missing);
        // kube-controller-manager handles no other API.
        let built_in_handles_it = match api {
            AutoscalerApi::Core => self.built_in_handles_autoscalers(Some(namespace)),
            AutoscalerApi::Custom => Some(false),
        };
        let (is_certain, built_in) = match built_in_handles_it {
            Some(true) => return None,
            Some(false) => {
                let is_certain = !is_missing
                    && self.is_loss_certain(api, namespace)
                    && !self.may_have_successor(api, namespace);
                // The same finding as for a status of kube-controller-manager.
                let may_replace = api == AutoscalerApi::Core && !excludes_it;
                let built_in = self.built_in_idle(Some(namespace)).filter(|_| may_replace);
                // kube-controller-manager may run without a lease.
                if built_in.is_none() && is_missing && may_replace {
                    return None;
                }
                (is_certain, built_in)
            }
            None => (false, Some(self.describe_unknown_built_in())),
        };
        Some(Idle { is_certain, cause, built_in, search: None, successor })
    }

    /// Checks whether no controller acts on an autoscaler without a status: each known instance of
    /// hpa-rs that may run handles only other autoscalers, and kube-controller-manager doesn't
    /// handle this one. The cause is the lost lease of an instance that handled it, or else the
    /// flag that leaves it out. The finding is uncertain, because an instance whose lease no status
    /// names may handle it.
    pub(crate) fn idle_without_status(&self, api: AutoscalerApi, namespace: &str) -> Option<Idle> {
        let may_built_in_act = api == AutoscalerApi::Core
            && (self.built_in_handles_autoscalers(Some(namespace)) != Some(false)
                || self.built_in_writes_without_lease(Some(namespace)));
        if may_built_in_act || self.may_have_successor(api, namespace) {
            return None;
        }
        let instances = self.describe_successor(api, namespace)?;
        if let Some(expired) = self.expired_handlers(api, namespace).next() {
            let (cause, successor) = (expired.describe_expiry(), Some(instances));
            return Some(Idle {
                is_certain: false,
                cause,
                built_in: None,
                search: None,
                successor,
            });
        }
        let mut held = self.leases_for(Some(namespace)).filter(|(_, holder)| !is_lost(holder));
        let handles_api =
            held.any(|(_, holder)| scope_of(holder).is_some_and(|scope| scope.apis.contains(&api)));
        let flag = if handles_api {
            format!("--namespace (chart: namespaces) leaves out {namespace}")
        } else {
            format!("--autoscaler-api (chart: autoscalerApi) leaves out {api}")
        };
        let cause = format!("{instances}: {flag}");
        Some(Idle { is_certain: false, cause, built_in: None, search: None, successor: None })
    }

    /// The finding about an autoscaler whose status kube-controller-manager stored last.
    fn idle_after_built_in(&self, namespace: &str) -> Option<Idle> {
        let may_act = self.leases_for(Some(namespace)).any(|(name, holder)| {
            // A lease that can't be read may be held by an instance that handles the namespace.
            let is_unread = !is_held(holder) && !is_lost(holder);
            is_unread || self.has_replaced_built_in(name, holder, Some(namespace))
        });
        if may_act {
            return None;
        }
        let expired = self.expired_lease_for(namespace);
        let has_restarted = self.has_restarted_built_in(namespace);
        let is_unknown = (expired.is_some() || has_restarted)
            && self.built_in_handles_autoscalers(Some(namespace)).is_none();
        let built_in = if is_unknown && has_restarted {
            format!(
                "{}, and it has stored no status since it acquired its lease",
                self.describe_unknown_built_in()
            )
        } else if is_unknown {
            self.describe_unknown_built_in()
        } else {
            self.built_in_idle(Some(namespace))?
        };
        // The lease of the search says nothing about the namespace if another one expired there.
        let is_relevant = |search: &String| expired.as_ref().is_none_or(|lost| lost == search);
        let search = self.describe_search().filter(is_relevant);
        // hpa-rs doesn't replace a status that needs no change.
        let lost = expired.or_else(|| describe_lost_lease(&self.lease.holder));
        let lost = lost.filter(|_| search.is_none());
        let (cause, built_in) = match lost {
            Some(lost) => (lost, Some(built_in)),
            None => (built_in, None),
        };
        let successor = self.describe_successor(AutoscalerApi::Core, namespace);
        let is_certain = !is_unknown
            && search.is_none()
            && self.is_loss_certain(AutoscalerApi::Core, namespace)
            && !self.may_have_successor(AutoscalerApi::Core, namespace);
        Some(Idle { is_certain, cause, built_in, search, successor })
    }

    /// Whether kube-controller-manager acquired its lease after its last status in a namespace, in
    /// a cluster with a lease of hpa-rs: its HPA controller may have been switched off.
    fn has_restarted_built_in(&self, namespace: &str) -> bool {
        let acquired = self.built_in.holder.as_ref().ok().and_then(|holder| holder.acquired);
        let times = acquired.zip(self.writers.last_built_in_write(Some(namespace)));
        let is_later = times.is_some_and(|(acquired, write)| is_clearly_after(acquired, write));
        let is_missing = |holder| matches!(holder, &Err(Unavailable::NoLease(_)));
        is_later && self.hpa_rs_leases().any(|(_, holder)| !is_missing(holder))
    }

    /// A clause about the last expired lease whose holder published that it handles an autoscaler.
    /// `None` if no such lease expired after that of `manager` was lost. It may be the lease of a
    /// later release: a status that doesn't change names that of an earlier one.
    fn describe_later_expiry(
        &self,
        manager: &str,
        api: AutoscalerApi,
        namespace: &str,
    ) -> Option<String> {
        let lost_at = self.lost_at(manager)?;
        let last = self.expired_handlers(api, namespace).max_by_key(|holder| holder.expiry())?;
        (last.expiry()? > lost_at).then(|| last.describe_expiry())
    }

    /// A clause about an expired lease whose holder published that it handles the autoscalers of
    /// the core API in a namespace. `None` if kube-controller-manager stored a status there since.
    fn expired_lease_for(&self, namespace: &str) -> Option<String> {
        let last_write = self.writers.last_built_in_write(Some(namespace));
        let is_replaced = |holder: &&LeaseHolder| {
            let times = last_write.zip(holder.expiry());
            times.is_some_and(|(write, expiry)| is_clearly_after(write, expiry))
        };
        let mut expired = self.expired_handlers(AutoscalerApi::Core, namespace);
        expired.find(|holder| !is_replaced(holder)).map(LeaseHolder::describe_expiry)
    }

    /// The holders of expired leases that published that they handle the autoscalers of an API in a
    /// namespace.
    fn expired_handlers(
        &self,
        api: AutoscalerApi,
        namespace: &str,
    ) -> impl Iterator<Item = &LeaseHolder> {
        let leases = self.leases_for(Some(namespace)).filter(move |(_, holder)| {
            is_lost(holder) && handles(holder, api, Some(namespace)) == Some(true)
        });
        leases.filter_map(|(_, holder)| holder.as_ref().ok())
    }

    /// A clause about kube-controller-manager if it is unknown whether it handles autoscalers.
    fn describe_unknown_built_in(&self) -> String {
        let unread = if self.built_in.holder.is_ok() { "flags" } else { "lease" };
        format!(
            "whether {KUBE_CONTROLLER_MANAGER} handles autoscalers is unknown: its {unread} can't \
             be read"
        )
    }

    /// Whether an instance of hpa-rs handles an autoscaler after the lease `lost` was lost. The
    /// instance must hold its own lease, and one of these must apply:
    ///
    /// - It may have replaced the instance with the lost lease, and published that it handles the
    ///   autoscaler.
    /// - It stored a status in the namespace, and didn't publish that it handles only other
    ///   autoscalers.
    fn is_handled_by_hpa_rs(&self, lost: &LeaseKey, api: AutoscalerApi, namespace: &str) -> bool {
        let publishes_it = |(name, holder): (&LeaseKey, &HolderResult)| {
            let handles_it = handles(holder, api, Some(namespace)) == Some(true);
            handles_it && is_held(holder) && name.may_have_replaced(lost)
        };
        if self.leases_for(Some(namespace)).any(publishes_it) {
            return true;
        }
        self.hpa_rs_leases().any(|(name, holder)| {
            is_held(holder)
                && !excludes(holder, api, Some(namespace))
                && self.writers.has_writer(api, namespace, name.manager().as_str())
        })
    }

    /// Whether another instance of hpa-rs may handle an autoscaler: one whose lease may be held, or
    /// one without leader election.
    fn may_have_successor(&self, api: AutoscalerApi, namespace: &str) -> bool {
        self.may_hpa_rs_run(api, Some(namespace)) || self.has_writer_without_lease(Some(namespace))
    }

    /// A clause about the other instances of hpa-rs in a namespace: those of leases that may be
    /// held, and those without leader election. `None` if there are none.
    fn describe_successor(&self, api: AutoscalerApi, namespace: &str) -> Option<String> {
        let (mut unknown, mut elsewhere) = (Vec::new(), Vec::new());
        let leases = self.leases_for(Some(namespace));
        for (name, holder) in leases.filter(|(_, holder)| !is_lost(holder)) {
            let is_excluded = excludes(holder, api, Some(namespace));
            let names = if is_excluded { &mut elsewhere } else { &mut unknown };
            names.push(name.to_string());
        }
        let mut clauses = Vec::new();
        if !elsewhere.is_empty() {
            let leases = elsewhere.join(" or ");
            clauses.push(format!(
                "an instance with the lease {leases} handles only other autoscalers (annotation of \
                 the lease)"
            ));
        }
        let mut instances = Vec::new();
        if !unknown.is_empty() {
            instances.push(format!("with the lease {}", unknown.join(" or ")));
        }
        if self.has_writer_without_lease(Some(namespace)) {
            instances.push("without leader election".to_owned());
        }
        if !instances.is_empty() {
            let instances = instances.join(" or ");
            clauses.push(format!("whether an instance {instances} acts instead is unknown"));
        }
        (!clauses.is_empty()).then(|| clauses.join(", and "))
    }

    /// The result of the search for the lease of hpa-rs. `None` if its namespace is known, or if an
    /// instance holds it.
    fn describe_search(&self) -> Option<String> {
        let ControllerLease { name, holder, searched_namespaces, .. } = self.lease;
        if searched_namespaces.is_empty() || is_held(holder) {
            return None;
        }
        let lost = describe_lost_lease(holder);
        Some(lost.unwrap_or_else(|| describe_missing_lease(&name.name, searched_namespaces)))
    }

    /// Whether the controllers of a namespace have stopped if their leases are lost: the renewal
    /// times of all leases can be read, and kube-controller-manager has stored no status since.
    fn is_loss_certain(&self, api: AutoscalerApi, namespace: &str) -> bool {
        let holders = self.leases_for(Some(namespace)).map(|(_, holder)| holder);
        let mut holders = holders.chain([&self.built_in.holder]).flatten();
        let has_readable_times = !holders.any(|holder| holder.has_unreadable_time);
        let has_written = || self.built_in_write_after_loss(Some(namespace)).is_some();
        has_readable_times && (api == AutoscalerApi::Custom || !has_written())
    }
}
