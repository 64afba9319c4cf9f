//! The field managers that stored the statuses, by namespace.

use std::collections::{BTreeSet, HashMap};

use hpa_controller::AutoscalerApi;

use crate::listed_autoscalers::ListedAutoscaler;

/// The field managers that stored the statuses of autoscalers last, by namespace and API. An
/// instance that stored a status in a namespace handles the namespace's other autoscalers too.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceWriters(HashMap<String, BTreeSet<(AutoscalerApi, String)>>);

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
    /// Each item is the API and the namespace of an autoscaler, and the field manager of its
    /// status.
    pub(crate) fn new<'a>(
        statuses: impl IntoIterator<Item = (AutoscalerApi, &'a str, &'a str)>,
    ) -> Self {
        let mut by_namespace = HashMap::<String, BTreeSet<(AutoscalerApi, String)>>::new();
        for (api, namespace, manager) in statuses {
            let writers = by_namespace.entry(namespace.to_owned()).or_default();
            writers.insert((api, manager.to_owned()));
        }
        Self(by_namespace)
    }

    /// The writers of the statuses of autoscalers.
    pub(crate) fn of_autoscalers(autoscalers: &[ListedAutoscaler]) -> Self {
        Self::new(autoscalers.iter().filter_map(|one| {
            Some((one.api, one.hpa.metadata.namespace.as_str(), one.manager.as_deref()?))
        }))
    }

    /// Whether a field manager that fulfills the condition stored a status in the namespace.
    pub(super) fn any_in(
        &self,
        api: AutoscalerApi,
        namespace: &str,
        condition: impl Fn(&str) -> bool,
    ) -> bool {
        let mut writers = self.0.get(namespace).into_iter().flatten();
        writers.any(|(other_api, manager)| *other_api == api && condition(manager))
    }

    /// Whether a field manager stored a status in any namespace.
    pub(super) fn has(&self, manager: &str) -> bool {
        self.0.values().flatten().any(|(_, name)| name == manager)
    }

    /// The other field managers in the namespaces and APIs of `manager`.
    pub(super) fn beside(&self, manager: &str) -> BTreeSet<&str> {
        let mut others = BTreeSet::new();
        for writers in self.0.values() {
            let own = writers.iter().filter(|(_, name)| name == manager);
            let apis: Vec<AutoscalerApi> = own.map(|(api, _)| *api).collect();
            let shared = writers.iter().filter(|(api, name)| name != manager && apis.contains(api));
            others.extend(shared.map(|(_, name)| name.as_str()));
        }
        others
    }
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
}
