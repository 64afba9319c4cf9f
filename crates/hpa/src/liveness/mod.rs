//! Detects that no controller acts on autoscalers, or several do, from the leases and from the
//! field managers of statuses.
//!
//! | evidence | what it shows | who can forge it | how long it counts |
//! |---|---|---|---|
//! | flags of the static pod | HPA controller on or off | no tenant | while its lease is held |
//! | lease | holder, acquisition, scope | users of its namespace | until it expires |
//! | status writer | a controller wrote at a time | users of the autoscaler | one minute |
//! | debug API | the work of an instance | the creator of the lease | when it is read |
//!
//! What a tenant can forge counts only in its own namespaces:
//!
//! - A lease that only statuses of its own namespace name is [local](ControllerLease::local) to it.
//! - A writer counts in a namespace if it stored a status there, or in [most](NamespaceWriters).
//! - A debug API answers for all autoscalers if a flag names it, or if its lease
//!   [can't be a tenant's](ControllerLease::may_answer_for_all).
//!
//! An older status shows only who stored it: a status that doesn't change keeps its writer. There
//! is one exception: a status that kube-controller-manager stored after it acquired its lease, and
//! that no other tenant can have forged. It shows that the HPA controller may be on. Another
//! instance may have stored it without a lease (`--leader-elect=false`), so reports have its age.

mod built_in;
mod conflict;
mod idle;
mod search;
#[cfg(test)]
mod tests;
mod writers;

use std::{iter, slice};

use hpa_calc::explain::counted;
use hpa_controller::{
    AutoscalerApi, InstanceScope,
    debug::ActingController,
    k8s::{FieldManager, is_clearly_after},
};
use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
pub(crate) use self::built_in::ManagerFlags;
pub(crate) use self::{
    built_in::KubeControllerManager,
    conflict::Conflict,
    idle::{Idle, group_by_finding},
    search::{ControllerLease, ReadLease, SearchedAutoscaler, is_held, is_lost},
    writers::{NamespaceWriters, Writer, status_writers},
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseKey, Unavailable},
    terminal::shorten_names,
};

/// The holder of a lease, or the reason why none is known.
pub(crate) type HolderResult = Result<LeaseHolder, Unavailable>;

/// A controller that stored a status within this time counts as running.
const RECENT_WRITE: SignedDuration = SignedDuration::from_mins(1);

/// An instance that acquired its lease within this time may not have stored all statuses yet: if
/// only values change, it stores a status at most once per minute.
const TAKEOVER_TIME: SignedDuration = SignedDuration::from_mins(2);

/// Whether a status that was stored at `newest` shows that its writer runs.
pub(crate) fn is_recent_write(newest: Option<Timestamp>, now: Timestamp) -> bool {
    newest.is_some_and(|newest| now.duration_since(newest) <= RECENT_WRITE)
}

/// Formats the age of a status, such as `2m ago`. The clock of its time may be ahead of this one.
pub(crate) fn describe_age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    if seconds <= 0 {
        return "just now".to_owned();
    }
    format!("{:#} ago", SignedDuration::from_secs(seconds))
}

/// Formats the number and the names of autoscalers, such as `2 autoscalers (shop/a, shop/b)`.
pub(crate) fn describe_autoscalers(names: &[String]) -> String {
    format!("{} ({})", counted(names.len(), "autoscaler"), shorten_names(names))
}

/// The leases of hpa-rs and of kube-controller-manager, and the writers of statuses.
pub(crate) struct Leases<'a> {
    /// The checked lease of hpa-rs, and its other leases.
    pub(crate) lease: &'a ControllerLease,
    pub(crate) writers: &'a NamespaceWriters,
    pub(crate) built_in: &'a KubeControllerManager,
    /// The time at which the statuses were read.
    pub(crate) now: Timestamp,
}

impl Leases<'_> {
    /// Whether the holder of a lease is known to act on the autoscalers of the core API in a
    /// namespace. `namespace` is `None` for several namespaces. If the holder published no scope on
    /// the lease, it must have stored a status in the namespace, or have just acquired the lease.
    fn has_replaced_built_in(
        &self,
        name: &LeaseKey,
        holder: &HolderResult,
        namespace: Option<&str>,
    ) -> bool {
        let api = AutoscalerApi::Core;
        if !is_held(holder) {
            return false;
        }
        if let Some(handles_it) = handles(holder, api, namespace) {
            return handles_it;
        }
        let own = name.manager();
        let has_taken_over = |holder: &LeaseHolder| {
            let acquired = holder.acquired;
            acquired.is_some_and(|at| holder.requested_at.duration_since(at).abs() <= TAKEOVER_TIME)
        };
        namespace.is_some_and(|namespace| self.writers.has_writer(api, namespace, own.as_str()))
            || holder.as_ref().is_ok_and(has_taken_over)
    }

    /// The held lease whose acquisition explains that kube-controller-manager has stored no status
    /// in a namespace since `newest`. Its holder published that it handles the namespace. Without a
    /// published scope, only the checked lease counts. The clocks of the holder and of the API
    /// server may differ.
    pub(crate) fn takeover_after(
        &self,
        namespace: &str,
        newest: Option<Timestamp>,
    ) -> Option<&LeaseKey> {
        let mut held = self.leases_for(Some(namespace)).filter(|(_, holder)| is_held(holder));
        let takeover = held.find(|(name, holder)| {
            let handles_it = handles(holder, AutoscalerApi::Core, Some(namespace))
                .unwrap_or(**name == self.lease.name);
            let acquired = holder.as_ref().ok().and_then(|holder| holder.acquired);
            let times = acquired.zip(newest);
            handles_it && times.is_some_and(|(acquired, at)| is_clearly_after(acquired, at))
        });
        takeover.map(|(name, _)| name)
    }

    /// Whether an hpa-rs without leader election may act in a namespace, or in several if it is
    /// `None`, by the writers of statuses.
    pub(crate) fn has_writer_without_lease(&self, namespace: Option<&str>) -> bool {
        self.writers.may_act_in(namespace, FieldManager::default().as_str())
    }

    /// The controller that acts on an autoscaler whose status `manager` stored last. `namespace` is
    /// `None` for the autoscalers of several namespaces. `hpa_rs_answers` is whether a debug API
    /// shows that an hpa-rs works. It may have no lease.
    pub(crate) fn acting_controller(
        &self,
        api: AutoscalerApi,
        namespace: Option<&str>,
        manager: Option<&str>,
        hpa_rs_answers: bool,
    ) -> ActingController {
        match (api, manager) {
            (AutoscalerApi::Core, Some(KUBE_CONTROLLER_MANAGER)) => {
                self.successor_of_built_in(namespace, hpa_rs_answers)
            }
            (AutoscalerApi::Core, Some(manager))
                if !hpa_rs_answers && self.no_longer_handles(manager, namespace) =>
            {
                self.successor_of_hpa_rs(namespace)
            }
            (AutoscalerApi::Core, Some(manager))
                if FieldManager::is_hpa_rs(manager) && self.may_built_in_act(namespace) =>
            {
                // If both act, they overwrite each other's decisions.
                ActingController::Unknown { is_status_of_kube_controller_manager: false }
            }
            _ => ActingController::HpaRs,
        }
    }

    /// The controller that acts on an autoscaler whose status kube-controller-manager stored last.
    fn successor_of_built_in(
        &self,
        namespace: Option<&str>,
        hpa_rs_answers: bool,
    ) -> ActingController {
        let mut leases = self.leases_for(namespace);
        let hpa_rs_runs = hpa_rs_answers
            || self.hpa_rs_writes_without_lease(AutoscalerApi::Core, namespace)
            || leases.any(|(name, holder)| self.has_replaced_built_in(name, holder, namespace));
        let hpa_rs_may_run = hpa_rs_runs || self.may_hpa_rs_run(AutoscalerApi::Core, namespace);
        match self.built_in_idle(namespace) {
            // Both store statuses, so the last one says nothing.
            _ if hpa_rs_runs && self.may_built_in_act(namespace) => {
                ActingController::Unknown { is_status_of_kube_controller_manager: false }
            }
            Some(_) if hpa_rs_runs => ActingController::HpaRs,
            None if !hpa_rs_may_run => ActingController::KubeControllerManager {
                is_status_of_kube_controller_manager: true,
            },
            _ => ActingController::Unknown { is_status_of_kube_controller_manager: true },
        }
    }

    /// The controller that acts on an autoscaler whose status was stored by an hpa-rs that no
    /// longer holds its lease, or handles other autoscalers. If there is none, hpa-rs acts as soon
    /// as it runs again.
    fn successor_of_hpa_rs(&self, namespace: Option<&str>) -> ActingController {
        let is_status_of_kube_controller_manager = false;
        match self.built_in_handles_autoscalers(namespace) {
            Some(false) if !self.may_built_in_write_without_lease(namespace) => {
                ActingController::HpaRs
            }
            Some(true) if !self.may_hpa_rs_run(AutoscalerApi::Core, namespace) => {
                ActingController::KubeControllerManager { is_status_of_kube_controller_manager }
            }
            _ => ActingController::Unknown { is_status_of_kube_controller_manager },
        }
    }

    /// Whether the instance whose lease a field manager names no longer handles the autoscalers of
    /// the core API in a namespace: it lost the lease, or published that it handles only others.
    fn no_longer_handles(&self, manager: &str, namespace: Option<&str>) -> bool {
        self.lease_of(manager).is_some_and(|(_, holder)| {
            is_lost(holder) || excludes(holder, AutoscalerApi::Core, namespace)
        })
    }

    /// A clause about the lease of `manager`, if the hpa-rs that held it no longer does.
    pub(crate) fn describe_lost(&self, manager: &str) -> Option<String> {
        let (LeaseKey { namespace, name }, holder) = self.lease_of(manager)?;
        let missing = || describe_missing_lease(name, slice::from_ref(namespace));
        is_lost(holder).then(|| describe_lost_lease(holder).unwrap_or_else(missing))
    }

    /// Whether a controller has lost or released its lease, and has stored no status since. Its
    /// last status was stored at `newest`.
    pub(crate) fn no_longer_writes(&self, manager: &str, newest: Option<Timestamp>) -> bool {
        let is_later = newest
            .zip(self.lost_at(manager))
            .is_some_and(|(newest, lost_at)| is_clearly_after(newest, lost_at));
        let writes = is_later && self.is_recent_write(newest);
        !writes && self.is_running(manager) == Some(false)
    }

    /// Whether the status that a controller stored at `newest` is recent and, if the clocks agree,
    /// newer than the loss of its lease.
    pub(crate) fn may_write_without_lease(&self, manager: &str, newest: Option<Timestamp>) -> bool {
        let times = newest.zip(self.lost_at(manager));
        times.is_some_and(|(newest, lost_at)| newest > lost_at) && self.is_recent_write(newest)
    }

    /// The time at which the lease of a controller was released or expired. `None` if it is
    /// missing, or if the time can't be read.
    fn lost_at(&self, manager: &str) -> Option<Timestamp> {
        match self.holder_of(manager)? {
            Ok(holder) => holder.expiry(),
            Err(Unavailable::NotHeld { released, .. }) => *released,
            Err(_) => None,
        }
    }

    /// Whether a status that was stored at `newest` shows that its writer runs.
    pub(crate) fn is_recent_write(&self, newest: Option<Timestamp>) -> bool {
        is_recent_write(newest, self.now)
    }

    /// Whether a controller runs, by its lease. `None` if unknown. If the lease of an hpa-rs is
    /// missing, it doesn't run, because it creates the lease at the start. If that of
    /// kube-controller-manager is missing, it may run: a managed cluster keeps the lease elsewhere.
    pub(crate) fn is_running(&self, manager: &str) -> Option<bool> {
        match self.holder_of(manager)? {
            Ok(holder) if holder.has_unreadable_time => None,
            Ok(holder) => Some(!holder.is_expired()),
            Err(Unavailable::NotHeld { .. }) => Some(false),
            Err(Unavailable::NoLease(_)) if manager != KUBE_CONTROLLER_MANAGER => Some(false),
            Err(_) => None,
        }
    }

    /// The holder of a controller's lease. `None` if the lease was not read.
    fn holder_of(&self, manager: &str) -> Option<&HolderResult> {
        match manager {
            KUBE_CONTROLLER_MANAGER => Some(&self.built_in.holder),
            _ => self.lease_of(manager).map(|(_, holder)| holder),
        }
    }

    /// Whether another hpa-rs, which may run, stored a status in a namespace in which `manager`
    /// stored one.
    pub(crate) fn shares_namespace(&self, manager: &str) -> bool {
        let others = self.writers.beside(manager).into_iter();
        let mut others = others.filter(|other| FieldManager::is_hpa_rs(other));
        others.any(|other| self.is_running(other) != Some(false))
    }

    /// Whether hpa-rs is known to run, and only for the custom API. The holders of its leases
    /// published that, or have stored only statuses of the custom API.
    pub(crate) fn runs_for_custom_api_only(&self) -> bool {
        let without_lease = self.writers.apis_of(FieldManager::default().as_str());
        let mut leases = self.hpa_rs_leases().filter(|(_, holder)| !is_lost(holder)).peekable();
        leases.peek().is_some()
            && !without_lease.contains(&AutoscalerApi::Core)
            && leases.all(|(name, holder)| {
                if let Some(scope) = scope_of(holder) {
                    return scope.apis == [AutoscalerApi::Custom];
                }
                let apis = self.writers.apis_of(name.manager().as_str());
                apis.into_iter().eq([AutoscalerApi::Custom])
            })
    }

    /// Whether kube-controller-manager handles the autoscalers of the core API, with or without a
    /// lease, and no hpa-rs runs. [Local](ControllerLease::local) leases count only in the
    /// namespace of the checked lease.
    pub(crate) fn is_built_in_alone(&self) -> bool {
        let checked_namespace = Some(self.lease.name.namespace.as_str());
        let mut leases = self.leases_for(checked_namespace);
        let acts = self.built_in_handles_autoscalers(None) == Some(true)
            || self.built_in_writes_without_lease(None);
        acts && !leases.any(|(_, holder)| may_be_held(holder))
            && !self.hpa_rs_writes_without_lease(AutoscalerApi::Core, None)
    }

    /// The leases of hpa-rs, the checked one first.
    pub(crate) fn hpa_rs_leases(&self) -> impl Iterator<Item = (&LeaseKey, &HolderResult)> {
        let others = self.lease.others.iter().map(|lease| (&lease.name, &lease.holder));
        iter::once((&self.lease.name, &self.lease.holder)).chain(others)
    }

    /// The leases whose instances may act on autoscalers of a namespace, or of several if it is
    /// `None`.
    fn leases_for(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&LeaseKey, &HolderResult)> {
        self.hpa_rs_leases().filter(move |(name, _)| {
            !self.lease.local.contains(name) || namespace == Some(name.namespace.as_str())
        })
    }

    /// Whether the lease that a field manager names says nothing about autoscalers of other
    /// namespaces, see [`ControllerLease::local`].
    pub(crate) fn is_local(&self, manager: &str) -> bool {
        self.lease_of(manager).is_some_and(|(name, _)| self.lease.local.contains(name))
    }

    /// The lease that a field manager of hpa-rs names. `None` if it was not read.
    pub(crate) fn lease_of(&self, manager: &str) -> Option<(&LeaseKey, &HolderResult)> {
        let named = FieldManager::parse_lease(manager)?;
        self.hpa_rs_leases()
            .find(|(lease, _)| (lease.namespace.as_str(), lease.name.as_str()) == named)
    }

    /// Whether an hpa-rs that may act on autoscalers of an API may run: its lease may be held, or
    /// it writes without one. `namespace` is `None` for autoscalers of several namespaces.
    pub(crate) fn may_hpa_rs_run(&self, api: AutoscalerApi, namespace: Option<&str>) -> bool {
        let mut leases = self.leases_for(namespace);
        leases.any(|(_, holder)| may_be_held(holder) && !excludes(holder, api, namespace))
            || self.hpa_rs_writes_without_lease(api, namespace)
    }

    /// Whether an hpa-rs without leader election has just stored a status of an API, in a namespace
    /// or in most, see [`NamespaceWriters::last_write`].
    fn hpa_rs_writes_without_lease(&self, api: AutoscalerApi, namespace: Option<&str>) -> bool {
        let manager = FieldManager::default();
        self.is_recent_write(self.writers.last_write(api, namespace, manager.as_str()))
    }

    /// Whether kube-controller-manager handles autoscalers of the core API in a namespace, or in
    /// several if it is `None`. `None` if unknown. A missing lease counts as that of a controller
    /// that doesn't run.
    pub(crate) fn built_in_handles_autoscalers(&self, namespace: Option<&str>) -> Option<bool> {
        let is_missing = matches!(self.built_in.holder, Err(Unavailable::NoLease(_)));
        if is_missing || self.built_in_idle(namespace).is_some() {
            return Some(false);
        }
        let last_write = self.writers.last_built_in_write(namespace);
        let is_on = self.built_in.is_hpa_controller_on_by_write(last_write, self.now) == Some(true);
        (self.built_in.holder.is_ok() && is_on).then_some(true)
    }

    /// The time of kube-controller-manager's last status in a namespace, or in most, if only that
    /// status shows that it may handle autoscalers: its flags can't be read, and the status isn't
    /// recent or may be that of an earlier holder of its lease. The instance that stored the status
    /// may have stopped since.
    fn uncertain_built_in_evidence(&self, namespace: &str) -> Option<Timestamp> {
        let last_write = self.writers.last_built_in_write(Some(namespace));
        let is_certain = self.is_recent_write(last_write)
            && (!is_held(&self.built_in.holder)
                || self.built_in_handles_autoscalers(Some(namespace)) == Some(true));
        last_write.filter(|_| self.built_in.flags.is_none() && !is_certain)
    }

    /// Whether kube-controller-manager handles autoscalers of the core API in a namespace, or in
    /// several if it is `None`. Also true if it may handle them: its flags can't be read, and it or
    /// an earlier holder of its lease has just stored a status.
    pub(crate) fn may_built_in_act(&self, namespace: Option<&str>) -> bool {
        if let Some(handles_it) = self.built_in_handles_autoscalers(namespace) {
            return handles_it || self.may_built_in_write_without_lease(namespace);
        }
        let last_write = self.writers.last_built_in_write(namespace);
        is_held(&self.built_in.holder) && self.is_recent_write(last_write)
    }

    /// Whether a kube-controller-manager that holds no lease, as with `--leader-elect=false`, has
    /// just stored a status in a namespace, or in most.
    fn built_in_writes_without_lease(&self, namespace: Option<&str>) -> bool {
        let last_write = self.writers.last_built_in_write(namespace);
        is_lost(&self.built_in.holder)
            && self.is_recent_write(last_write)
            && !self.no_longer_writes(KUBE_CONTROLLER_MANAGER, last_write)
    }

    /// Like [`Self::built_in_writes_without_lease`]. Also true if that follows only if the clocks
    /// agree.
    fn may_built_in_write_without_lease(&self, namespace: Option<&str>) -> bool {
        let last_write = self.writers.last_built_in_write(namespace);
        self.built_in_writes_without_lease(namespace)
            || is_lost(&self.built_in.holder)
                && self.may_write_without_lease(KUBE_CONTROLLER_MANAGER, last_write)
    }

    /// The time of kube-controller-manager's last status in a namespace, or in most, if that is
    /// later than the loss of its lease: it may still run. A recent status must only be later than
    /// the last renewal of the lease, because an instance without a lease may have replaced the
    /// holder before the lease expired.
    fn built_in_write_after_loss(&self, namespace: Option<&str>) -> Option<Timestamp> {
        let lost_at = self.lost_at(KUBE_CONTROLLER_MANAGER)?;
        let renewed = self.built_in.holder.as_ref().map_or(Some(lost_at), |holder| holder.renewed);
        let last_write = self.writers.last_built_in_write(namespace);
        let is_recent = self.is_recent_write(last_write);
        let is_after = |at: &Timestamp| {
            is_clearly_after(*at, lost_at) || is_recent && renewed.is_some_and(|it| *at > it)
        };
        last_write.filter(|at| is_lost(&self.built_in.holder) && is_after(at))
    }

    /// The reason why kube-controller-manager handles no autoscaler of a namespace, or of several
    /// if it is `None`, if it is known.
    fn built_in_idle(&self, namespace: Option<&str>) -> Option<String> {
        if let Some(lost) = describe_lost_lease(&self.built_in.holder) {
            let written = self.built_in_write_after_loss(namespace).map(|at| {
                let age = describe_age(at, self.now);
                format!(", but a status stored {age} names {KUBE_CONTROLLER_MANAGER}")
            });
            return Some(lost + &written.unwrap_or_default());
        }
        let is_off = self.built_in.is_hpa_controller_on(self.now) == Some(false);
        is_off.then(|| format!("{KUBE_CONTROLLER_MANAGER}'s HPA controller is off"))
    }
}

/// The autoscalers that the holder of a lease handles. `None` if it is unknown.
fn scope_of(holder: &HolderResult) -> Option<&InstanceScope> {
    holder.as_ref().ok()?.scope.as_ref()
}

/// Whether the holder of a lease handles the autoscalers of a namespace, or of all if it is `None`.
/// `None` if it is unknown.
fn handles(holder: &HolderResult, api: AutoscalerApi, namespace: Option<&str>) -> Option<bool> {
    scope_of(holder).map(|scope| scope.handles(api, namespace))
}

/// Whether the holder of a lease published a scope without the autoscalers of a namespace. False
/// for several namespaces (`None`).
pub(crate) fn excludes(holder: &HolderResult, api: AutoscalerApi, namespace: Option<&str>) -> bool {
    namespace.is_some() && handles(holder, api, namespace) == Some(false)
}

/// Whether a lease may be held: one that can't be read, or whose time can't be read, may be.
fn may_be_held(holder: &HolderResult) -> bool {
    let has_unreadable_time = holder.as_ref().is_ok_and(|holder| holder.has_unreadable_time);
    has_unreadable_time || !is_lost(holder)
}

/// A clause about a lease that is in none of the namespaces.
pub(crate) fn describe_missing_lease(name: &str, namespaces: &[String]) -> String {
    format!("no lease {name} was found in {}", namespaces.join(" or "))
}

/// A clause about a lease that is not held, or has expired. `None` for other leases.
fn describe_lost_lease(holder: &HolderResult) -> Option<String> {
    match holder {
        Ok(holder) if holder.is_expired() => Some(holder.describe_expiry()),
        Err(error @ Unavailable::NotHeld { .. }) => Some(error.to_string()),
        Ok(_) | Err(_) => None,
    }
}
