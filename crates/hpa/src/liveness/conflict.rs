//! Several controllers that act on the same autoscalers.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use hpa_controller::{
    AutoscalerApi,
    k8s::{FieldManager, is_clearly_after},
};
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::Timestamp;

use super::{
    Leases, describe_age, describe_autoscalers, handles,
    search::{is_held, is_lost},
};
use crate::debug_client::{KUBE_CONTROLLER_MANAGER, LeaseKey};

/// The maximum number of reported conflicts. A tenant can forge one for each of its autoscalers.
const MAX_CONFLICTS: usize = 8;

/// Controllers that all act on the same autoscalers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Their field managers, sorted. At least two.
    pub(crate) managers: BTreeSet<String>,
    /// The names of the autoscalers, sorted.
    pub(crate) autoscalers: Vec<String>,
    /// The age of kube-controller-manager's newest status, such as `2m ago`, if the conflict is
    /// uncertain: only that status shows it, and the instance that stored it may have stopped.
    pub(crate) uncertain_evidence: Option<String>,
}

impl Conflict {
    /// A clause that names the controllers. `autoscalers` is the text that names the autoscalers.
    pub(crate) fn clause(&self, autoscalers: &str) -> String {
        let managers: Vec<_> = self.managers.iter().map(String::as_str).collect();
        let (names, quantifier) = match &*managers {
            [first, second] => (format!("{first} and {second}"), "both"),
            _ => (managers.join(", "), "all"),
        };
        match &self.uncertain_evidence {
            Some(age) => format!(
                "{names} may {quantifier} act on {autoscalers}: a status stored {age} names \
                 {KUBE_CONTROLLER_MANAGER}, whose flags can't be read"
            ),
            None => format!(
                "{names} {quantifier} act on {autoscalers} and overwrite each other's decisions"
            ),
        }
    }

    /// Like [`Self::clause`], with the number and names of the autoscalers.
    pub(crate) fn describe(&self) -> String {
        self.clause(&describe_autoscalers(&self.autoscalers))
    }

    /// A sentence for the start of a report.
    pub(crate) fn sentence(&self) -> String {
        format!("{}. hpa status says more.", self.describe())
    }

    /// Advice that ends the conflict.
    pub(crate) fn advice(&self) -> &'static str {
        if self.has_built_in() {
            "Stop one of them: kube-controller-manager's flag \
             --controllers=*,-horizontal-pod-autoscaler-controller switches its HPA controller \
             off, see docs/migration.md"
        } else {
            "Give each release its own namespaces (--namespace), or stop one of them"
        }
    }

    /// Whether kube-controller-manager is one of the controllers.
    pub(crate) fn has_built_in(&self) -> bool {
        self.managers.contains(KUBE_CONTROLLER_MANAGER)
    }
}

impl Leases<'_> {
    /// The conflicts of autoscalers, by controllers. Those with kube-controller-manager come first,
    /// then those of the most autoscalers. At most [`MAX_CONFLICTS`].
    pub(crate) fn conflicts(&self, statuses: &[AutoscalerStatusWriter]) -> Vec<Conflict> {
        // Certain and uncertain conflicts of the same managers are different ones.
        let mut by_managers = BTreeMap::<_, (Vec<String>, Option<Timestamp>)>::new();
        for status in statuses {
            let managers = self.acting_managers(status);
            if managers.len() < 2 {
                continue;
            }
            let has_built_in = managers.contains(KUBE_CONTROLLER_MANAGER);
            let evidence = self.uncertain_built_in_evidence(&status.key.namespace);
            let evidence = evidence.filter(|_| has_built_in);
            let (autoscalers, newest) =
                by_managers.entry((managers, evidence.is_some())).or_default();
            autoscalers.push(status.key.to_string());
            *newest = (*newest).max(evidence);
        }
        let conflicts = by_managers.into_iter().map(|((managers, _), (mut autoscalers, at))| {
            autoscalers.sort_unstable();
            let uncertain_evidence = at.map(|at| describe_age(at, self.now));
            Conflict { managers, autoscalers, uncertain_evidence }
        });
        let mut conflicts: Vec<_> = conflicts.collect();
        conflicts.sort_by_key(|one| Reverse((one.has_built_in(), one.autoscalers.len())));
        conflicts.truncate(MAX_CONFLICTS);
        conflicts
    }

    /// The field managers of the controllers that act on an autoscaler. Empty in a dry run: hpa-rs
    /// only compares.
    ///
    /// kube-controller-manager acts if its HPA controller is on. A holder of a
    /// [trusted](Self::is_trusted) lease acts if it published so. Other controllers act if they
    /// [write](Self::writes_beside).
    fn acting_managers(&self, status: &AutoscalerStatusWriter) -> BTreeSet<String> {
        if status.dry_run {
            return BTreeSet::new();
        }
        let (api, namespace) = (status.key.api, Some(&*status.key.namespace));
        let has_built_in = api == AutoscalerApi::Core
            && self.built_in_handles_autoscalers(namespace) == Some(true);
        let built_in =
            has_built_in.then_some((KUBE_CONTROLLER_MANAGER.to_owned(), &self.built_in.holder));
        let leases = self.leases_for(namespace).filter(|(name, holder)| {
            is_held(holder)
                && handles(holder, api, namespace) == Some(true)
                && self.is_trusted(name, status)
        });
        let leases = leases.map(|(name, holder)| (name.manager().as_str().to_owned(), holder));
        let (mut managers, holders): (BTreeSet<_>, Vec<_>) =
            built_in.into_iter().chain(leases).unzip();
        let acquired = holders.into_iter().flatten().filter_map(|holder| holder.acquired).max();
        let of_status = status.overwritten.iter().map(|write| &write.manager);
        let of_status = of_status.chain([&status.manager]).cloned();
        // A controller may have stored only other statuses of the namespace: one that needs no
        // change keeps its writer. Unknown field managers of these don't count, because a tenant
        // can forge any number of them.
        let of_hpa_rs = self.leases_for(namespace).map(|(name, _)| name.manager());
        let of_hpa_rs = of_hpa_rs.chain([FieldManager::default()]);
        let known = of_hpa_rs.map(|manager| manager.as_str().to_owned());
        let writers = of_status.chain(known).chain([KUBE_CONTROLLER_MANAGER.to_owned()]);
        managers.extend(writers.filter(|writer| self.writes_beside(writer, status, acquired)));
        managers
    }

    /// Whether a field manager acts on the autoscaler beside the holders of leases:
    ///
    /// - In the last minute, it stored this status, or another status that shows that it
    ///   [acts in the namespace](super::NamespaceWriters::last_write).
    /// - It did so after the others acquired their leases, at `acquired`, and hasn't lost its own
    ///   lease since.
    /// - It is that of an hpa-rs whose scope is unknown, or that of kube-controller-manager. The
    ///   latter must hold no lease, as with `--leader-elect=false`, or have just acquired it.
    fn writes_beside(
        &self,
        manager: &str,
        status: &AutoscalerStatusWriter,
        acquired: Option<Timestamp>,
    ) -> bool {
        let (api, namespace) = (status.key.api, Some(&*status.key.namespace));
        let at = status.written_at(manager).max(self.writers.last_write(api, namespace, manager));
        let is_candidate = if manager == KUBE_CONTROLLER_MANAGER {
            let holder = &self.built_in.holder;
            api == AutoscalerApi::Core
                && (is_lost(holder) || is_held(holder) && self.may_built_in_act(namespace))
        } else {
            let lease = self.lease_of(manager);
            let scope = lease.and_then(|(_, holder)| handles(holder, api, namespace));
            FieldManager::is_hpa_rs(manager) && scope.is_none()
        };
        // It may have stopped when the last of the others took over.
        let may_have_stopped =
            at.zip(acquired).is_some_and(|(at, acquired)| !is_clearly_after(at, acquired));
        is_candidate
            && !may_have_stopped
            && self.is_recent_write(at)
            && !self.no_longer_writes(manager, at)
    }

    /// Whether the published scope of a lease counts for an autoscaler: no tenant of another
    /// namespace can have published it.
    fn is_trusted(&self, lease: &LeaseKey, status: &AutoscalerStatusWriter) -> bool {
        let own = lease.manager();
        let (api, namespace) = (status.key.api, &*status.key.namespace);
        lease.namespace == namespace
            || status.written_at(own.as_str()).is_some()
            || self.writers.has_writer(api, namespace, own.as_str())
            || lease.is_in_usual_namespace()
            || self.lease.may_answer_for_all && lease.namespace == self.lease.name.namespace
    }
}
