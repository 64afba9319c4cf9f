//! The field managers that stored the statuses, by namespace.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use hpa_controller::AutoscalerApi;
use jiff::Timestamp;

use crate::listed_autoscalers::ListedAutoscaler;

/// The field managers that stored the statuses of autoscalers last, by namespace and API. An
/// instance that stored a status in a namespace handles the namespace's other autoscalers too.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceWriters {
    by_namespace: HashMap<String, WritersOfNamespace>,
    /// The field managers that stored a status in more than half of the namespaces, each with the
    /// latest time since which it did so in more than half. A tenant can only forge writes in its own
    /// namespaces.
    in_most: BTreeMap<String, Option<Timestamp>>,
}

/// The time of each writer's newest status.
type WritersOfNamespace = BTreeMap<(AutoscalerApi, String), Option<Timestamp>>;

/// The namespace and the writer of each status. A status with a time in the future has no writer,
/// see [`StatusController`](crate::status_controller::StatusController).
pub(crate) fn status_writers<'a>(
    autoscalers: impl IntoIterator<Item = &'a ListedAutoscaler>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    autoscalers
        .into_iter()
        .filter_map(|one| Some((one.hpa.metadata.namespace.as_str(), one.manager.as_deref()?)))
}

impl NamespaceWriters {
    /// Each item is the API and the namespace of an autoscaler, the field manager of its status, and
    /// the time at which it was stored.
    pub(crate) fn new<'a>(
        statuses: impl IntoIterator<Item = (AutoscalerApi, &'a str, &'a str, Option<Timestamp>)>,
    ) -> Self {
        let mut by_namespace = HashMap::<String, WritersOfNamespace>::new();
        for (api, namespace, manager, at) in statuses {
            let writers = by_namespace.entry(namespace.to_owned()).or_default();
            let newest = writers.entry((api, manager.to_owned())).or_default();
            *newest = (*newest).max(at);
        }
        let in_most = writers_in_most(&by_namespace);
        Self { by_namespace, in_most }
    }

    /// The writers of the statuses of autoscalers.
    pub(crate) fn of_autoscalers(autoscalers: &[ListedAutoscaler]) -> Self {
        Self::new(autoscalers.iter().filter_map(|one| {
            let (namespace, manager) = (&one.hpa.metadata.namespace, one.manager.as_deref()?);
            Some((one.api, namespace.as_str(), manager, one.status_stored_at))
        }))
    }

    /// Whether a field manager that fulfills the condition stored a status in the namespace.
    pub(super) fn any_in(
        &self,
        api: AutoscalerApi,
        namespace: &str,
        condition: impl Fn(&str) -> bool,
    ) -> bool {
        let mut writers = self.by_namespace.get(namespace).into_iter().flatten();
        writers.any(|((other_api, manager), _)| *other_api == api && condition(manager))
    }

    /// Whether a field manager stored a status in the namespace or in most namespaces. For the
    /// autoscalers of several namespaces, `namespace` is `None`.
    pub(crate) fn may_act_in(&self, namespace: Option<&str>, manager: &str) -> bool {
        let is_in =
            |api| namespace.is_some_and(|one| self.any_in(api, one, |name| name == manager));
        self.in_most.contains_key(manager) || AutoscalerApi::ALL.into_iter().any(is_in)
    }

    /// The time of the newest status that a field manager stored in the namespace, or in most
    /// namespaces if that is later.
    pub(super) fn last_write(&self, namespace: Option<&str>, manager: &str) -> Option<Timestamp> {
        let writers = namespace.and_then(|namespace| self.by_namespace.get(namespace));
        let own = writers.into_iter().flatten().filter(|((_, name), _)| name == manager);
        let in_most = self.in_most.get(manager).copied().flatten();
        own.filter_map(|(_, at)| *at).max().max(in_most)
    }

    /// The other field managers in the namespaces and APIs of `manager`.
    pub(super) fn beside(&self, manager: &str) -> BTreeSet<&str> {
        let mut others = BTreeSet::new();
        for writers in self.by_namespace.values() {
            let own = writers.keys().filter(|(_, name)| name == manager);
            let apis: Vec<AutoscalerApi> = own.map(|(api, _)| *api).collect();
            let shared = writers.keys().filter(|(api, name)| name != manager && apis.contains(api));
            others.extend(shared.map(|(_, name)| name.as_str()));
        }
        others
    }
}

/// See [`NamespaceWriters::in_most`].
fn writers_in_most(
    by_namespace: &HashMap<String, WritersOfNamespace>,
) -> BTreeMap<String, Option<Timestamp>> {
    let mut times = BTreeMap::<&str, Vec<Option<Timestamp>>>::new();
    for writers in by_namespace.values() {
        let mut newest = BTreeMap::<&str, Option<Timestamp>>::new();
        for ((_, manager), at) in writers {
            let newest = newest.entry(manager.as_str()).or_default();
            *newest = (*newest).max(*at);
        }
        for (manager, at) in newest {
            times.entry(manager).or_default().push(at);
        }
    }
    let half = by_namespace.len() / 2;
    let in_most = times.into_iter().filter_map(|(manager, mut times)| {
        times.sort_unstable_by_key(|at| Reverse(*at));
        Some((manager.to_owned(), *times.get(half)?))
    });
    in_most.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert_eq!(status_writers(&autoscalers).collect::<Vec<_>>(), [("shop", "real")]);
    }

    /// `b` forges the field manager `x` at the second 9 in one of three namespaces.
    #[test]
    fn writer_counts_in_its_namespaces_or_if_it_wrote_in_most() {
        let at = |second| Timestamp::from_second(second).ok();
        let of_two = [("a", "y", at(1)), ("b", "x", at(9)), ("c", "y", at(3))];
        let writers =
            |statuses: &[(&'static str, &'static str, Option<Timestamp>)]| {
                let statuses = statuses.iter();
                NamespaceWriters::new(statuses.map(|(namespace, manager, at)| {
                    (AutoscalerApi::Core, *namespace, *manager, *at)
                }))
            };
        let forged = writers(&of_two);
        let find = |namespace, manager| {
            (forged.may_act_in(namespace, manager), forged.last_write(namespace, manager))
        };
        assert_eq!(find(Some("b"), "x"), (true, at(9)));
        assert_eq!(find(Some("a"), "x"), (false, None));
        assert_eq!(find(None, "x"), (false, None));
        assert_eq!(find(None, "y"), (true, at(1)));
        assert_eq!(find(Some("c"), "y"), (true, at(3)));
        let half = writers(&of_two[..2]);
        assert!(!half.may_act_in(None, "x") && !half.may_act_in(None, "y"));
    }
}
