//! Several controllers that act on the same autoscalers.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use hpa_calc::explain::counted;
use hpa_controller::{
    AutoscalerApi,
    k8s::{FieldManager, is_clearly_after},
};
use hpa_dashboard::AutoscalerStatusWriter;

use super::{
    Leases, handles,
    search::{is_held, is_lost},
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseName},
    terminal::shorten_names,
};

/// The maximum number of reported conflicts. A tenant can forge one for each of its autoscalers.
const MAX_CONFLICTS: usize = 8;

/// Controllers that all act on the same autoscalers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Their field managers, sorted. At least two.
    pub(crate) managers: BTreeSet<String>,
    /// The names of the autoscalers, sorted.
    pub(crate) autoscalers: Vec<String>,
}

impl Conflict {
    /// A clause that names the controllers. `autoscalers` is the text that names the autoscalers.
    pub(crate) fn clause(&self, autoscalers: &str) -> String {
        let managers: Vec<_> = self.managers.iter().map(String::as_str).collect();
        let (all, number) = match &*managers {
            [first, second] => (format!("{first} and {second}"), "both"),
            _ => (managers.join(", "), "all"),
        };
        format!("{all} {number} act on {autoscalers} and overwrite each other's decisions")
    }

    /// Like [`Self::clause`], with the number and names of the autoscalers.
    pub(crate) fn describe(&self) -> String {
        let count = counted(self.autoscalers.len(), "autoscaler");
        self.clause(&format!("{count} ({})", shorten_names(&self.autoscalers)))
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
        let mut by_managers = BTreeMap::<BTreeSet<String>, Vec<String>>::new();
        for status in statuses {
            let managers = self.acting_managers(status);
            if managers.len() > 1 {
                by_managers.entry(managers).or_default().push(status.key.to_string());
            }
        }
        let conflict = |(managers, mut autoscalers): (_, Vec<String>)| {
            autoscalers.sort_unstable();
            Conflict { managers, autoscalers }
        };
        let mut conflicts: Vec<_> = by_managers.into_iter().map(conflict).collect();
        conflicts.sort_by_key(|one| Reverse((one.has_built_in(), one.autoscalers.len())));
        conflicts.truncate(MAX_CONFLICTS);
        conflicts
    }

    /// The field managers of the controllers that are known to act on an autoscaler. Empty in a dry
    /// run: hpa-rs only compares.
    ///
    /// kube-controller-manager acts if its HPA controller is on. A holder of a
    /// [trusted](Self::is_trusted) lease acts if it published so. An hpa-rs whose scope is unknown
    /// acts if it stored the status within the last minute, after the others acquired their leases,
    /// and hasn't lost its own since. So does a kube-controller-manager that holds no lease, as with
    /// `--leader-elect=false`.
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
        let writers = status.overwritten.iter().map(|write| &write.manager);
        let writers = writers.chain([&status.manager]).filter(|writer| {
            let at = status.written_at(writer);
            let scope =
                self.lease_of(writer).and_then(|(_, holder)| handles(holder, api, namespace));
            // It may have stopped when another one took over.
            let is_before =
                at.zip(acquired).is_some_and(|(at, acquired)| !is_clearly_after(at, acquired));
            let is_without_lease = *writer == KUBE_CONTROLLER_MANAGER
                && api == AutoscalerApi::Core
                && is_lost(&self.built_in.holder);
            (FieldManager::is_hpa_rs(writer) && scope.is_none() || is_without_lease)
                && !is_before
                && self.is_recent_write(at)
                && !self.no_longer_writes(writer, at)
        });
        managers.extend(writers.cloned());
        managers
    }

    /// Whether the published scope of a lease counts for an autoscaler: no tenant of another
    /// namespace can have published it.
    fn is_trusted(&self, lease: &LeaseName, status: &AutoscalerStatusWriter) -> bool {
        let own = lease.manager();
        let is_own = |manager: &str| manager == own.as_str();
        let (api, namespace) = (status.key.api, &*status.key.namespace);
        // kube-controller-manager's lease is in a usual namespace.
        let is_usual = || lease.may_succeed(&LeaseName::built_in());
        lease.namespace == namespace
            || status.written_at(own.as_str()).is_some()
            || self.writers.any_in(api, namespace, is_own)
            || is_usual()
            || self.lease.may_answer_for_all && lease.may_succeed(&self.lease.name)
    }
}
