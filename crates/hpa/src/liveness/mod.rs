//! Detects that no controller acts on autoscalers, or several do, from the leases and from the field
//! managers of statuses.

mod built_in;
mod search;
#[cfg(test)]
mod tests;
mod writers;

use std::{iter, slice};

use hpa_controller::{
    AutoscalerApi,
    debug::ActingController,
    k8s::{FieldManager, is_clearly_after},
};
use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
pub(crate) use self::built_in::ManagerFlags;
use self::search::is_lost;
pub(crate) use self::{
    built_in::KubeControllerManager,
    search::{ControllerLease, ReadLease, StatusOwner, is_held},
    writers::{NamespaceWriters, Writer, status_writers},
};
use crate::debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseName, Unavailable};

/// A controller that stored a status within this time counts as running.
const RECENT_WRITE: SignedDuration = SignedDuration::from_mins(1);

/// Whether a status that was stored at `newest` shows that its writer runs.
pub(crate) fn is_recent_write(newest: Option<Timestamp>, now: Timestamp) -> bool {
    newest.is_some_and(|newest| now.duration_since(newest) <= RECENT_WRITE)
}

/// The leases of hpa-rs and of kube-controller-manager, as read at `now`.
pub(crate) struct Leases<'a> {
    /// The checked lease of hpa-rs, and its others.
    pub(crate) lease: &'a ControllerLease,
    pub(crate) writers: &'a NamespaceWriters,
    pub(crate) built_in: &'a KubeControllerManager,
    pub(crate) now: Timestamp,
}

/// The finding that no controller acts on an autoscaler, as far as the leases and the writers of
/// statuses show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Idle {
    pub(crate) is_certain: bool,
    /// The cause, without the search.
    pub(crate) cause: String,
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

    /// The cause, the result of the search, and the clause about other instances of hpa-rs.
    pub(crate) fn reason(&self) -> String {
        self.cause.clone() + &self.addition()
    }

    /// The end of the reason after the cause. Empty if there is none.
    pub(crate) fn addition(&self) -> String {
        let clauses = [&self.search, &self.successor].into_iter().flatten();
        clauses.flat_map(|clause| [", and ", clause.as_str()]).collect()
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

impl Leases<'_> {
    /// Checks whether no controller acts on an autoscaler. `manager` is the field manager that
    /// stored the status last. `None` if a controller may act: the lease of `manager` is held or
    /// can't be read, or was not read; another hpa-rs that holds its lease stored a status in the
    /// namespace; or kube-controller-manager handles the autoscaler. The finding is uncertain if a
    /// lease is missing, was only guessed or has an unreadable time: its controller may run. It is
    /// also uncertain if the lease of another hpa-rs may be held, or if one without leader election
    /// stored a status.
    pub(crate) fn idle(&self, api: AutoscalerApi, namespace: &str, manager: &str) -> Option<Idle> {
        if manager == KUBE_CONTROLLER_MANAGER {
            return self.idle_after_built_in(namespace);
        }
        let (name, holder) = self.lease_of(manager)?;
        if !is_lost(holder, self.now) || self.is_handled_by_hpa_rs(api, namespace) {
            return None;
        }
        let successor = self.describe_successor(namespace, name);
        let Some(cause) = lost_lease(holder, self.now) else {
            let cause = self.cause_without_lease(api, name)?;
            return Some(Idle { is_certain: false, cause, search: None, successor });
        };
        // kube-controller-manager handles no other API.
        let built_in_handles_it = match api {
            AutoscalerApi::Core => self.built_in_handles_autoscalers(Some(namespace)),
            AutoscalerApi::Custom => Some(false),
        };
        match built_in_handles_it {
            Some(true) => None,
            Some(false) => {
                let is_certain = self.has_readable_times(namespace) && successor.is_none();
                Some(Idle { is_certain, cause, search: None, successor })
            }
            None => {
                let unread = if self.built_in.holder.is_ok() { "flags" } else { "lease" };
                let cause = format!(
                    "{cause}, and whether {KUBE_CONTROLLER_MANAGER} handles autoscalers is \
                     unknown: its {unread} can't be read"
                );
                Some(Idle { is_certain: false, cause, search: None, successor })
            }
        }
    }

    /// The finding about an autoscaler whose status kube-controller-manager stored last.
    fn idle_after_built_in(&self, namespace: &str) -> Option<Idle> {
        let mut leases = self.leases_for(Some(namespace));
        if leases.any(|(_, holder)| !is_lost(holder, self.now)) {
            return None;
        }
        let (built_in, search) = (self.built_in_idle()?, self.describe_search());
        // hpa-rs doesn't replace a status that needs no change.
        let lost = lost_lease(&self.lease.holder, self.now).filter(|_| search.is_none());
        let cause = match lost {
            Some(lost) => format!("{lost}, and {built_in}"),
            None => built_in,
        };
        let successor = self.describe_successor(namespace, &self.lease.name);
        let is_certain =
            search.is_none() && self.has_readable_times(namespace) && successor.is_none();
        Some(Idle { is_certain, cause, search, successor })
    }

    /// The cause if the lease that a status of hpa-rs names is missing: the uninstallation of
    /// hpa-rs deletes it. `None` if it is unknown whether kube-controller-manager handles the
    /// autoscaler.
    fn cause_without_lease(&self, api: AutoscalerApi, lease: &LeaseName) -> Option<String> {
        let missing = format!("the lease that hpa-rs' status names, {lease}, does not exist");
        Some(match api {
            AutoscalerApi::Core => format!("{missing}, and {}", self.built_in_idle()?),
            AutoscalerApi::Custom => missing,
        })
    }

    /// Whether an instance of hpa-rs that holds its lease stored the status of an autoscaler in the
    /// namespace.
    fn is_handled_by_hpa_rs(&self, api: AutoscalerApi, namespace: &str) -> bool {
        let holds_lease = |manager: &str| {
            self.lease_of(manager).is_some_and(|(_, holder)| is_held(holder, self.now))
        };
        self.writers.any_in(api, namespace, holds_lease)
    }

    /// A clause about the instances that may act in a namespace without the lease `name`: those of
    /// other leases that may be held, and those without leader election. `None` if there are none.
    fn describe_successor(&self, namespace: &str, name: &LeaseName) -> Option<String> {
        let mut names = Vec::new();
        for (other, holder) in self.leases_for(Some(namespace)) {
            if other != name && !is_lost(holder, self.now) {
                names.push(other.to_string());
            }
        }
        let mut instances = Vec::new();
        if !names.is_empty() {
            instances.push(format!("with the lease {}", names.join(" or ")));
        }
        if self.has_writer_without_lease(Some(namespace)) {
            instances.push("without leader election".to_owned());
        }
        let instances = instances.join(" or ");
        (!instances.is_empty())
            .then(|| format!("whether an instance {instances} acts instead is unknown"))
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
            (AutoscalerApi::Core, Some(manager)) if !hpa_rs_answers && self.has_lost(manager) => {
                self.successor_of_hpa_rs(namespace)
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
        let is_held = self.leases_for(namespace).any(|(_, holder)| is_held(holder, self.now));
        let hpa_rs_runs = hpa_rs_answers || is_held;
        let hpa_rs_may_run = hpa_rs_runs || self.may_hpa_rs_run(namespace);
        let is_built_in_writer = true;
        match self.built_in_idle() {
            Some(_) if hpa_rs_runs => ActingController::HpaRs,
            None if !hpa_rs_may_run => {
                ActingController::KubeControllerManager { is_built_in_writer }
            }
            _ => ActingController::Unknown { is_built_in_writer },
        }
    }

    /// The controller that acts on an autoscaler whose status was stored by an hpa-rs that no
    /// longer holds its lease. If there is none, hpa-rs acts as soon as it runs again.
    fn successor_of_hpa_rs(&self, namespace: Option<&str>) -> ActingController {
        let is_built_in_writer = false;
        match self.built_in_handles_autoscalers(namespace) {
            Some(false) => ActingController::HpaRs,
            Some(true) if !self.may_hpa_rs_run(namespace) => {
                ActingController::KubeControllerManager { is_built_in_writer }
            }
            Some(true) | None => ActingController::Unknown { is_built_in_writer },
        }
    }

    /// Whether the lease that a field manager names is missing, expired or without a holder.
    fn has_lost(&self, manager: &str) -> bool {
        self.lease_of(manager).is_some_and(|(_, holder)| is_lost(holder, self.now))
    }

    /// A clause about the lease of `manager`, if the hpa-rs that held it no longer does.
    pub(crate) fn describe_lost(&self, manager: &str) -> Option<String> {
        let (LeaseName { namespace, name }, holder) = self.lease_of(manager)?;
        let missing = || no_lease_found(name, slice::from_ref(namespace));
        is_lost(holder, self.now).then(|| lost_lease(holder, self.now).unwrap_or_else(missing))
    }

    /// The result of the search for the lease of hpa-rs. `None` if its namespace is known.
    fn describe_search(&self) -> Option<String> {
        let ControllerLease { name, holder, searched_namespaces, .. } = self.lease;
        if searched_namespaces.is_empty() {
            return None;
        }
        let lost = lost_lease(holder, self.now);
        Some(lost.unwrap_or_else(|| no_lease_found(&name.name, searched_namespaces)))
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
            Ok(holder) => Some(!holder.is_expired(self.now)),
            Err(Unavailable::NotHeld { .. }) => Some(false),
            Err(Unavailable::NoLease(_)) if manager != KUBE_CONTROLLER_MANAGER => Some(false),
            Err(_) => None,
        }
    }

    /// The holder of a controller's lease. `None` if the lease was not read.
    fn holder_of(&self, manager: &str) -> Option<&Result<LeaseHolder, Unavailable>> {
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

    /// Whether kube-controller-manager handles the autoscalers of the core API, and no hpa-rs with
    /// the checked lease, or one for several namespaces, runs.
    pub(crate) fn is_built_in_alone(&self) -> bool {
        let checked_namespace = Some(self.lease.name.namespace.as_str());
        self.built_in_handles_autoscalers(None) == Some(true)
            && !self.may_hpa_rs_run(checked_namespace)
    }

    /// The leases of hpa-rs, the checked one first.
    pub(crate) fn hpa_rs_leases(
        &self,
    ) -> impl Iterator<Item = (&LeaseName, &Result<LeaseHolder, Unavailable>)> {
        let others = self.lease.others.iter().map(|lease| (&lease.name, &lease.holder));
        iter::once((&self.lease.name, &self.lease.holder)).chain(others)
    }

    /// The leases whose instances may act on autoscalers of a namespace, or of several if it is
    /// `None`. A tenant can create a lease in its own namespace, and name it in its own statuses.
    fn leases_for(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&LeaseName, &Result<LeaseHolder, Unavailable>)> {
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
    pub(crate) fn lease_of(
        &self,
        manager: &str,
    ) -> Option<(&LeaseName, &Result<LeaseHolder, Unavailable>)> {
        let named = FieldManager::parse_lease(manager)?;
        self.hpa_rs_leases()
            .find(|(lease, _)| (lease.namespace.as_str(), lease.name.as_str()) == named)
    }

    /// Whether a lease whose instance acts in the namespace may be held: one that can't be read, or
    /// whose time can't be read, may be.
    fn may_hpa_rs_run(&self, namespace: Option<&str>) -> bool {
        self.leases_for(namespace).any(|(_, holder)| {
            let has_unreadable_time =
                holder.as_ref().is_ok_and(|holder| holder.has_unreadable_time);
            has_unreadable_time || !is_lost(holder, self.now)
        })
    }

    /// Whether the renewal times of all leases of a namespace's controllers can be read.
    fn has_readable_times(&self, namespace: &str) -> bool {
        let holders = self.leases_for(Some(namespace)).map(|(_, holder)| holder);
        let mut holders = holders.chain([&self.built_in.holder]).flatten();
        !holders.any(|holder| holder.has_unreadable_time)
    }

    /// Whether kube-controller-manager handles autoscalers of the core API in a namespace, or in
    /// several if it is `None`. `None` if unknown. A missing lease counts as that of a controller
    /// that doesn't run.
    fn built_in_handles_autoscalers(&self, namespace: Option<&str>) -> Option<bool> {
        let is_missing = matches!(self.built_in.holder, Err(Unavailable::NoLease(_)));
        if is_missing || self.built_in_idle().is_some() {
            return Some(false);
        }
        let last_write = self.writers.last_write(namespace, KUBE_CONTROLLER_MANAGER);
        let is_on = self.built_in.has_hpa_controller_by(last_write, self.now) == Some(true);
        (self.built_in.holder.is_ok() && is_on).then_some(true)
    }

    /// The reason why kube-controller-manager handles no autoscaler, if it is known.
    fn built_in_idle(&self) -> Option<String> {
        lost_lease(&self.built_in.holder, self.now).or_else(|| {
            let is_off = self.built_in.has_hpa_controller(self.now) == Some(false);
            is_off.then(|| format!("{KUBE_CONTROLLER_MANAGER}'s HPA controller is off"))
        })
    }
}

/// A clause about a lease that is in none of the namespaces.
pub(crate) fn no_lease_found(name: &str, namespaces: &[String]) -> String {
    format!("no lease {name} was found in {}", namespaces.join(" or "))
}

/// A clause about a lease that is not held, or has expired. `None` for other leases.
fn lost_lease(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> Option<String> {
    match holder {
        Ok(holder) if holder.is_expired(now) => Some(holder.describe_expiry(now)),
        Err(error @ Unavailable::NotHeld { .. }) => Some(error.to_string()),
        Ok(_) | Err(_) => None,
    }
}
