//! The field managers that stored the statuses.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use hpa_controller::{AutoscalerApi, HpaKey};
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::Timestamp;

use crate::{debug_client::KUBE_CONTROLLER_MANAGER, listed_autoscalers::ListedAutoscaler};

/// The field managers that stored the statuses of autoscalers last, by namespace and API. An
/// instance that stored a status in a namespace handles all autoscalers of the namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceWriters {
    by_namespace: HashMap<String, WritersOfNamespace>,
    /// The field managers that stored a status in more than half of the namespaces.
    in_most: BTreeSet<String>,
    /// The time of each field manager's newest status in each namespace. Includes statuses that
    /// another controller has overwritten: if both act, they overwrite each other's statuses.
    newest_writes: HashMap<String, WriteTimes>,
    /// For each field manager, the latest time since which it has stored a status in more than half
    /// of the namespaces. Without field managers that have stored one in fewer.
    newest_in_most: WriteTimes,
}

type WritersOfNamespace = BTreeSet<(AutoscalerApi, String)>;

/// Times of writes by API and field manager.
type WriteTimes = BTreeMap<(AutoscalerApi, String), Timestamp>;

/// The writer of each status. A status with a time in the future has no writer, see
/// [`StatusController::of_object`](hpa_controller::k8s::StatusController::of_object).
pub(crate) fn status_writers(autoscalers: &[ListedAutoscaler]) -> Vec<AutoscalerStatusWriter> {
    let writers = autoscalers.iter().filter_map(|one| {
        let metadata = &one.hpa.metadata;
        let key = HpaKey::for_api(one.api, metadata.namespace.as_str(), metadata.name.as_str());
        Some(AutoscalerStatusWriter {
            key,
            manager: one.controller.name.clone()?,
            at: one.controller.at,
            overwritten: one.controller.overwritten.clone(),
            dry_run: one.asks_for_dry_run(),
        })
    });
    writers.collect()
}

impl NamespaceWriters {
    pub(crate) fn new(statuses: &[AutoscalerStatusWriter]) -> Self {
        let mut by_namespace = HashMap::<String, WritersOfNamespace>::new();
        let mut newest_writes = HashMap::<String, WriteTimes>::new();
        for AutoscalerStatusWriter { key, manager, at, overwritten, .. } in statuses {
            let namespace = key.namespace.to_string();
            let last = at.map(|at| (manager, at));
            let writes = overwritten.iter().map(|write| (&write.manager, write.at)).chain(last);
            let times = newest_writes.entry(namespace.clone()).or_default();
            for (writer, at) in writes {
                let newest = times.entry((key.api, writer.clone())).or_insert(at);
                *newest = (*newest).max(at);
            }
            by_namespace.entry(namespace).or_default().insert((key.api, manager.clone()));
        }
        let in_most = writers_in_most(&by_namespace);
        let newest_in_most = newest_in_most(&newest_writes);
        Self { by_namespace, in_most, newest_writes, newest_in_most }
    }

    /// Whether a field manager stored a status of the API in the namespace.
    pub(super) fn has_writer(&self, api: AutoscalerApi, namespace: &str, manager: &str) -> bool {
        let writers = self.by_namespace.get(namespace);
        writers.is_some_and(|writers| writers.contains(&(api, manager.to_owned())))
    }

    /// Whether a field manager stored a status in the namespace or in most namespaces. For the
    /// autoscalers of several namespaces, `namespace` is `None`.
    pub(crate) fn may_act_in(&self, namespace: Option<&str>, manager: &str) -> bool {
        let is_in = |api| namespace.is_some_and(|one| self.has_writer(api, one, manager));
        self.in_most.contains(manager) || AutoscalerApi::ALL.into_iter().any(is_in)
    }

    /// The time of the newest status of the API that a field manager stored in the namespace, or in
    /// most namespaces if that is later. hpa-rs may handle only some namespaces, so its statuses in
    /// others count only if it stored one in the namespace.
    pub(super) fn last_write(
        &self,
        api: AutoscalerApi,
        namespace: Option<&str>,
        manager: &str,
    ) -> Option<Timestamp> {
        let writer = (api, manager.to_owned());
        let own = namespace.and_then(|namespace| self.newest_writes.get(namespace)?.get(&writer));
        let may_handle_all =
            namespace.is_none() || own.is_some() || manager == KUBE_CONTROLLER_MANAGER;
        let in_most = self.newest_in_most.get(&writer).filter(|_| may_handle_all);
        own.max(in_most).copied()
    }

    /// The time of the newest status that kube-controller-manager stored in the namespace, or in
    /// most namespaces if that is later.
    pub(crate) fn last_built_in_write(&self, namespace: Option<&str>) -> Option<Timestamp> {
        self.last_write(AutoscalerApi::Core, namespace, KUBE_CONTROLLER_MANAGER)
    }

    /// The APIs in which a field manager stored a status.
    pub(super) fn apis_of(&self, manager: &str) -> BTreeSet<AutoscalerApi> {
        let writers = self.by_namespace.values().flatten();
        writers.filter(|(_, name)| name == manager).map(|(api, _)| *api).collect()
    }

    /// The other field managers in the namespaces and APIs of `manager`.
    pub(super) fn beside(&self, manager: &str) -> BTreeSet<&str> {
        let mut others = BTreeSet::new();
        for writers in self.by_namespace.values() {
            let own = writers.iter().filter(|(_, name)| name == manager);
            let apis: Vec<AutoscalerApi> = own.map(|(api, _)| *api).collect();
            let shared = writers.iter().filter(|(api, name)| name != manager && apis.contains(api));
            others.extend(shared.map(|(_, name)| name.as_str()));
        }
        others
    }
}

/// A field manager, and the autoscalers whose status it stored last.
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// The names of the autoscalers, sorted.
    pub(crate) autoscalers: Vec<String>,
    /// The time of the newest of these writes.
    pub(crate) newest: Option<Timestamp>,
}

impl<'a> Writer<'a> {
    /// The writers of statuses, by name.
    pub(crate) fn all(statuses: &'a [AutoscalerStatusWriter]) -> Vec<Self> {
        let mut by_manager = BTreeMap::<&str, Self>::new();
        for AutoscalerStatusWriter { key, manager, at, .. } in statuses {
            let new = Self { manager, autoscalers: Vec::new(), newest: None };
            let writer = by_manager.entry(manager).or_insert(new);
            writer.newest = writer.newest.max(*at);
            writer.autoscalers.push(key.to_string());
        }
        let mut writers: Vec<_> = by_manager.into_values().collect();
        for writer in &mut writers {
            writer.autoscalers.sort_unstable();
        }
        writers
    }
}

/// See [`NamespaceWriters::in_most`].
fn writers_in_most(by_namespace: &HashMap<String, WritersOfNamespace>) -> BTreeSet<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for writers in by_namespace.values() {
        let managers: BTreeSet<_> = writers.iter().map(|(_, manager)| manager.as_str()).collect();
        for manager in managers {
            *counts.entry(manager).or_default() += 1;
        }
    }
    let half = by_namespace.len() / 2;
    let in_most = counts.into_iter().filter(|(_, count)| *count > half);
    in_most.map(|(manager, _)| manager.to_owned()).collect()
}

/// See [`NamespaceWriters::newest_in_most`].
fn newest_in_most(newest_writes: &HashMap<String, WriteTimes>) -> WriteTimes {
    let mut by_writer = BTreeMap::<&(AutoscalerApi, String), Vec<Timestamp>>::new();
    for (writer, at) in newest_writes.values().flatten() {
        by_writer.entry(writer).or_default().push(*at);
    }
    let half = newest_writes.len() / 2;
    let in_most = by_writer.into_iter().filter_map(|(writer, mut times)| {
        times.sort_unstable_by_key(|at| Reverse(*at));
        Some((writer.clone(), *times.get(half)?))
    });
    in_most.collect()
}

#[cfg(test)]
mod tests {
    use hpa_controller::k8s::StatusWrite;
    use serde_json::json;

    use super::*;
    use crate::liveness::tests::writer;

    #[test]
    fn status_of_the_future_names_no_lease() {
        let autoscaler = |name: &str, time: &str| {
            let object = json!({
                "metadata": { "namespace": "shop", "name": name, "managedFields": [
                    { "manager": name, "subresource": "status", "time": time },
                ] },
                "spec": {
                    "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                },
            });
            ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler")
        };
        let (past, future) = ("2026-01-31T12:00:00Z", "9000-01-31T12:00:00Z");
        let autoscalers = [autoscaler("real", past), autoscaler("forged", future)];
        let managers = status_writers(&autoscalers).into_iter().map(|one| one.manager);
        assert_eq!(managers.collect::<Vec<_>>(), ["real"]);
    }

    /// The tenant of `b` forges the field manager `x` in one of three namespaces.
    #[test]
    fn writer_counts_in_its_namespaces_or_if_it_wrote_in_most() {
        let statuses = [("a", "y"), ("b", "x"), ("c", "y")]
            .map(|(namespace, manager)| writer(AutoscalerApi::Core, namespace, manager, None));
        let forged = NamespaceWriters::new(&statuses);
        assert!(forged.may_act_in(Some("b"), "x") && forged.may_act_in(None, "y"));
        assert!(!forged.may_act_in(Some("a"), "x") && !forged.may_act_in(None, "x"));
        let half = NamespaceWriters::new(&statuses[..2]);
        assert!(!half.may_act_in(None, "x") && !half.may_act_in(None, "y"));
    }

    /// Another controller has stored the statuses of `c` and `d` last.
    #[test]
    fn write_of_the_built_in_controller_counts_although_it_was_overwritten() {
        let at = |second| Timestamp::from_second(second).ok();
        let statuses = [
            ("a", KUBE_CONTROLLER_MANAGER, at(1), None),
            ("c", "x", at(9), at(3)),
            ("d", "x", at(9), None),
        ];
        let statuses = statuses.map(|(namespace, manager, at, built_in_at)| {
            let built_in = KUBE_CONTROLLER_MANAGER.to_owned();
            let overwritten = built_in_at.map(|at| StatusWrite { manager: built_in, at });
            let overwritten = overwritten.into_iter().collect();
            let writer = writer(AutoscalerApi::Core, namespace, manager, at);
            AutoscalerStatusWriter { overwritten, ..writer }
        });
        let writers = NamespaceWriters::new(&statuses);
        let last = |namespace| writers.last_built_in_write(namespace);
        assert_eq!([last(Some("c")), last(Some("d")), last(None)], [at(3), at(1), at(1)]);
        let forged = NamespaceWriters::new(&statuses[1..]);
        assert_eq!(forged.last_built_in_write(Some("d")), None);
        assert!(!writers.may_act_in(None, KUBE_CONTROLLER_MANAGER));
        // `x` may handle only `c` and `d`.
        let of_x = |namespace| writers.last_write(AutoscalerApi::Core, namespace, "x");
        assert_eq!([of_x(Some("c")), of_x(Some("a")), of_x(None)], [at(9), None, at(9)]);
    }
}
