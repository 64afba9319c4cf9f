//! Lists the autoscalers of a cluster, with the controllers that stored their statuses and the
//! scales of their targets.

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use futures::{StreamExt, stream};
use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    explain::one_line,
    report::{ShortReport, State, Surroundings, TargetIndex, TargetKey, enforced_bounds},
    settings::SettingPolicy,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, AutoscalerActivity, FailedStatusWrites, settings_of_controller},
    k8s::StatusController,
    scale_target::{TargetPods, TargetReader},
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::{
    args::AutoscalerApiArgument,
    autoscaler_name::{decode_named, describe_unserved, is_not_served, list_path},
    debug_client::UnstoredStatus,
    kubectl::{self, NoResponse},
    manifests::string_at,
    terminal,
};

/// The maximum number of scales that are read.
const MAX_SCALES: usize = 100;

/// An autoscaler, and the controller that stored its status.
#[derive(Clone)]
pub(crate) struct ListedAutoscaler {
    pub(crate) api: AutoscalerApi,
    /// The key as text, such as `shop/web` or `rhpa/shop/web`.
    pub(crate) name: String,
    pub(crate) hpa: HorizontalPodAutoscaler,
    pub(crate) created: Option<Timestamp>,
    /// The controller that stored the status last.
    pub(crate) controller: StatusController,
    /// The controller that acts on it, as far as it is known.
    pub(crate) acting: ActingController,
    /// The last status, if the controller failed to store it. `None` if it is stored, or if that
    /// isn't known.
    pub(crate) unstored: Option<UnstoredStatus>,
    /// The number of the target's pods, if it was read.
    pub(crate) target_pods: Option<TargetPods>,
    /// The latest activity of the controller, by its debug API or else by its events.
    pub(crate) activity: AutoscalerActivity,
    /// The names of the other autoscalers of the target. Empty until [`set_other_autoscalers`].
    pub(crate) other_autoscalers: Vec<String>,
    /// A sentence about other autoscalers of the target whose bounds exclude those of this one.
    pub(crate) bounds_conflict: Option<String>,
}

/// The namespaces of listed autoscalers, and an API that is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListScope {
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// Whether no flag selects the namespace: the user may not list the autoscalers of all
    /// namespaces.
    pub(crate) is_fallback: bool,
    /// A sentence without a full stop about a served API whose autoscalers can't be listed.
    pub(crate) unread_api: Option<String>,
}

impl ListScope {
    /// Sentences without a full stop about autoscalers that are not read: those of namespaces that
    /// no flag excludes, and those of an API.
    pub(crate) fn describe_limits(&self) -> Vec<String> {
        let namespace = self.namespace.as_ref().filter(|_| self.is_fallback);
        let fallback = namespace.map(|namespace| {
            format!(
                "Only the autoscalers of the namespace {namespace} are read, because you may not \
                 list those of all namespaces; -n selects another one"
            )
        });
        fallback.into_iter().chain(self.unread_api.clone()).collect()
    }
}

/// Lists the autoscalers of the APIs that `flag` selects, or else of all served APIs. If the user
/// may not list those of all namespaces, lists those of the kubeconfig context's namespace. Without
/// `flag`, the scope says if those of the custom API can't be listed. Fails if there are none
/// because the namespace doesn't exist.
pub(crate) async fn list_all_autoscalers(
    client: &Client,
    flag: Option<AutoscalerApiArgument>,
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<ListedAutoscaler>, ListScope)> {
    let mut scope = ListScope { namespace: namespace.map(str::to_owned), ..ListScope::default() };
    let mut all = Vec::new();
    let apis = flag.unwrap_or(AutoscalerApiArgument::Both).apis();
    for (index, api) in apis.into_iter().enumerate() {
        let is_optional = flag.is_none() && api == AutoscalerApi::Custom;
        if is_optional && is_not_served(client, api).await {
            continue;
        }
        let list = |namespace: Option<String>| async move {
            list_autoscalers(client, api, namespace.as_deref()).await
        };
        // The first API is never optional, and its scope is that of all APIs.
        if index == 0 {
            (all, scope) = list_in_scope(client, scope.namespace, list).await?;
            continue;
        }
        match list(scope.namespace.clone()).await {
            Ok(listed) => all.extend(listed),
            Err(error) if is_optional => {
                scope.unread_api = Some(describe_unread(api, &error, scope.namespace.as_deref()));
            }
            Err(error) => return Err(with_namespace_advice(error, scope.namespace.as_deref())),
        }
    }
    if all.is_empty() {
        kubectl::require_namespace(client, scope.namespace.as_deref()).await?;
    }
    Ok((all, scope))
}

/// A sentence about a served API whose autoscalers are not read. `error` is that of listing them in
/// `namespace`, or in all namespaces without it.
fn describe_unread(api: AutoscalerApi, error: &anyhow::Error, namespace: Option<&str>) -> String {
    let reason = match namespace {
        _ if !kubectl::is_forbidden(error) => format!(": {}", error.root_cause()),
        None => ", because you may not list those of all namespaces; -n selects one".to_owned(),
        Some(_) => ", because you may not list them".to_owned(),
    };
    format!("The autoscalers of {api} are not read{reason}")
}

/// Calls `list` for one or all namespaces. If the user may not list the autoscalers of all
/// namespaces, calls it for the kubeconfig context's namespace.
pub(crate) async fn list_in_scope<T, F>(
    client: &Client,
    namespace: Option<String>,
    list: impl Fn(Option<String>) -> F,
) -> anyhow::Result<(T, ListScope)>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let forbidden = match list(namespace.clone()).await {
        Err(error) if namespace.is_none() && kubectl::is_forbidden(&error) => error,
        listed => return Ok((listed?, ListScope { namespace, ..ListScope::default() })),
    };
    let own = client.default_namespace();
    match list(Some(own.to_owned())).await {
        Err(error) if kubectl::is_forbidden(&error) => Err(anyhow!(
            "{forbidden:#}. You may not list those of the namespace {own} either; -n selects \
             another one"
        )),
        listed => {
            let namespace = Some(own.to_owned());
            let scope = ListScope { namespace, is_fallback: true, unread_api: None };
            Ok((listed?, scope))
        }
    }
}

/// Adds advice for a user who may list the autoscalers of a namespace, but not all.
fn with_namespace_advice(error: anyhow::Error, namespace: Option<&str>) -> anyhow::Error {
    if namespace.is_none() && kubectl::is_forbidden(&error) {
        return anyhow!("{error:#}. If you may list those of one namespace, select it with -n");
    }
    error
}

/// Sets `other_autoscalers` and `bounds_conflict` of each autoscaler. Scheduled bounds are those at
/// the time `now`, by the default flags of the controller. Uses the acting controllers, because
/// kube-controller-manager ignores schedules.
pub(crate) fn set_other_autoscalers(all: &mut [ListedAutoscaler], now: Timestamp) {
    let (settings, policy) = (Settings::default(), SettingPolicy::default());
    let mut by_target = TargetIndex::default();
    for one in &*all {
        let settings = settings_of_controller(settings.clone(), &one.hpa, &policy, one.acting);
        let bounds = enforced_bounds(&one.hpa, &settings, now);
        by_target.insert(TargetKey::new(&one.hpa), one.name.clone(), bounds);
    }
    for one in all {
        (one.other_autoscalers, one.bounds_conflict) = by_target.others(&one.hpa, &one.name);
    }
}

/// Sets the statuses that could not be stored. `unstored` has them by the names of autoscalers, and
/// `failed` counts those of the whole cluster. Returns the count of those that are listed. If
/// `unstored` is empty, returns `failed`.
pub(crate) fn set_unstored_statuses(
    all: &mut [ListedAutoscaler],
    mut unstored: BTreeMap<String, UnstoredStatus>,
    failed: Option<FailedStatusWrites>,
) -> Option<FailedStatusWrites> {
    if unstored.is_empty() {
        return failed;
    }
    for one in all.iter_mut() {
        one.unstored = unstored.remove(&one.name);
    }
    let mut unstored = all.iter().filter_map(|one| one.unstored.as_ref());
    let error = unstored.next()?.error.clone();
    Some(FailedStatusWrites { autoscalers: 1 + unstored.count(), error })
}

/// Sets the latest activity of the controller. `activities` has it by the names of autoscalers.
pub(crate) fn set_activities(
    all: &mut [ListedAutoscaler],
    mut activities: BTreeMap<String, AutoscalerActivity>,
) {
    for one in all {
        one.activity = activities.remove(&one.name).unwrap_or_default();
    }
}

/// Lists the autoscalers of both APIs. An API that isn't served, or that the user may not list, has
/// none. Warns if there is no usable response.
pub(crate) async fn list_readable_autoscalers(
    client: &Client,
    namespace: Option<&str>,
) -> Vec<ListedAutoscaler> {
    let mut autoscalers = Vec::new();
    for api in AutoscalerApi::ALL {
        match list_autoscalers(client, api, namespace).await {
            Ok(listed) => autoscalers.extend(listed),
            Err(error) if error.is::<NoResponse>() => terminal::warn(format!("{error:#}")),
            Err(_) => {}
        }
    }
    autoscalers
}

/// Lists the autoscalers of an API. Warns of those that can't be decoded: one of them must not hide
/// the others.
pub(crate) async fn list_autoscalers(
    client: &Client,
    api: AutoscalerApi,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ListedAutoscaler>> {
    let objects = kubectl::list(client, &list_path(api, namespace)).await;
    let objects = objects.map_err(|error| {
        if kubectl::is_not_found(&error) {
            return anyhow!(describe_unserved(api));
        }
        error.context(format!("unable to list autoscalers of {api}"))
    })?;
    let (autoscalers, warning) = decode_all(api, &objects);
    if let Some(warning) = warning {
        terminal::warn(warning);
    }
    Ok(autoscalers)
}

/// Decodes autoscalers. Also returns a sentence about those that can't be decoded, if there are
/// any.
fn decode_all(api: AutoscalerApi, objects: &[Value]) -> (Vec<ListedAutoscaler>, Option<String>) {
    let (mut autoscalers, mut errors) = (Vec::new(), Vec::new());
    for object in objects {
        match ListedAutoscaler::decode(api, object) {
            Ok(autoscaler) => autoscalers.push(autoscaler),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    (autoscalers, kubectl::summarize_undecodable(&errors))
}

/// Reads the number of each target's pods, and the reason why pods can't be created. The status of
/// an autoscaler has neither. Reads them only for the first [`MAX_SCALES`] autoscalers whose short
/// reports need them. After a failed read, they stay unknown.
pub(crate) async fn read_scales(
    client: &Client,
    timeout: Duration,
    autoscalers: &mut [ListedAutoscaler],
    settings: &Settings,
    policy: &SettingPolicy,
) {
    let targets = &TargetReader::new(client, timeout);
    let needing_scale =
        autoscalers.iter_mut().filter(|one| one.short_report(settings, policy).needs_scale());
    let reads = needing_scale.take(MAX_SCALES).map(|one| async move {
        one.target_pods = targets.target_pods(&one.hpa).await;
    });
    let reads = stream::iter(reads).buffer_unordered(TargetReader::MAX_CONCURRENT_READS);
    reads.collect::<Vec<()>>().await;
}

impl ListedAutoscaler {
    pub(crate) fn decode(api: AutoscalerApi, object: &Value) -> anyhow::Result<Self> {
        let (namespace, name) =
            (string_at(object, "/metadata/namespace"), string_at(object, "/metadata/name"));
        let name = HpaKey::for_api(api, namespace, name).to_string();
        let hpa = decode_named(object, &format!("the autoscaler {name}"))?;
        let controller = StatusController::of_object(object, kubectl::now());
        Ok(Self {
            acting: ActingController::of_status(&controller, false),
            created: string_at(object, "/metadata/creationTimestamp").parse().ok(),
            controller,
            unstored: None,
            api,
            name,
            hpa,
            target_pods: None,
            activity: AutoscalerActivity::default(),
            other_autoscalers: Vec::new(),
            bounds_conflict: None,
        })
    }

    /// Whether the autoscaler's own settings ask for a dry run.
    pub(crate) fn asks_for_dry_run(&self) -> bool {
        let settings = Settings::default().for_autoscaler(&self.hpa, &SettingPolicy::default());
        settings.settings.dry_run
    }

    /// Summarizes the stored status, unless it is known to be older than the controller's last
    /// decision. `settings` are those of the controller's flags.
    pub(crate) fn short_report(&self, settings: &Settings, policy: &SettingPolicy) -> ShortReport {
        let resolved = settings_of_controller(settings.clone(), &self.hpa, policy, self.acting);
        let target_pods = self.target_pods.as_ref();
        let surroundings = Surroundings {
            scale: target_pods.map(|pods| &pods.scale),
            replica_failure: target_pods.and_then(|pods| pods.replica_failure.as_deref()),
            unschedulable_pods: self.activity.unschedulable_pods,
            unready_pods: self.activity.unready_pods,
            last_decision: self.activity.last_decision.as_deref(),
            overwritten_scalings: self.activity.overwritten_scalings,
            other_autoscalers: &self.other_autoscalers,
            bounds_conflict: self.bounds_conflict.as_deref(),
        };
        let mut report = ShortReport::with_surroundings(&self.hpa, &resolved, surroundings);
        if let Some(UnstoredStatus { error, failure }) = &self.unstored {
            report.state = State::Failing;
            // Usually all autoscalers have the same error, and cluster reports begin with it.
            let cause = match failure {
                Some(failure) => format!("{failure}; its status is not stored"),
                None => format!("its status is not stored: {error}"),
            };
            report.cause = one_line(&cause).into_owned();
            report.sentence.clone_from(&report.cause);
            (report.load, report.has_missing_metric) = (None, false);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Scale, report::OverwrittenScalings};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kubectl::answering_client;

    fn autoscaler(namespace: &str, name: &str) -> Value {
        json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": name },
            },
        })
    }

    #[tokio::test]
    async fn forbidden_lists_name_the_flag_for_another_namespace() {
        let client = answering_client(|_| (403, json!({ "message": "not permitted" })));
        let message = async |namespace| {
            let flag = Some(AutoscalerApiArgument::Core);
            let listed = list_all_autoscalers(&client, flag, namespace).await;
            format!("{:#}", listed.err().expect("forbidden"))
        };
        let one = "unable to list autoscalers of autoscaling/v2: not permitted";
        assert_eq!(message(Some("shop")).await, one);
        let neither = "You may not list those of the namespace default either; -n selects another";
        assert_eq!(message(None).await, format!("{one}. {neither} one"));
        // Other commands have no such flag.
        let listed = list_autoscalers(&client, AutoscalerApi::Core, None).await;
        assert_eq!(format!("{:#}", listed.err().expect("forbidden")), one);
    }

    #[tokio::test]
    async fn list_of_an_api_that_is_not_served_names_the_command_for_it() {
        let client = answering_client(|_| (404, json!("404 page not found")));
        let flag = Some(AutoscalerApiArgument::Custom);
        let error = list_all_autoscalers(&client, flag, None).await.err().expect("not served");
        let expected = "autoscaling.hpa-rs.dev/v2 is not installed (hpa crd prints its definition)";
        assert_eq!(format!("{error:#}"), expected);
    }

    #[rstest]
    #[case::all(None, 403, ", because you may not list those of all namespaces; -n selects one")]
    #[case::one(Some("shop"), 403, ", because you may not list them")]
    #[case::failure(None, 500, ": out of order")]
    #[tokio::test]
    async fn custom_api_whose_autoscalers_cannot_be_listed_is_named(
        #[case] namespace: Option<&str>,
        #[case] status: u16,
        #[case] reason: &str,
    ) {
        let client = answering_client(move |path| match path {
            "/apis/autoscaling.hpa-rs.dev/v2" => (200, json!({})),
            path if path.starts_with("/apis/autoscaling/v2/") => {
                (200, json!({ "metadata": {}, "items": [autoscaler("shop", "web")] }))
            }
            _ => (status, json!({ "message": "out of order" })),
        });
        let (listed, scope) = list_all_autoscalers(&client, None, namespace).await.expect("a list");
        assert_eq!(listed.len(), 1);
        let expected = format!("The autoscalers of autoscaling.hpa-rs.dev/v2 are not read{reason}");
        assert_eq!(scope.describe_limits(), [expected]);
    }

    #[tokio::test]
    async fn own_namespace_is_listed_if_listing_all_is_forbidden() {
        let client = answering_client(|path| match path {
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers" => {
                (200, json!({ "metadata": {}, "items": [autoscaler("default", "web")] }))
            }
            _ => (403, json!({ "message": "not permitted" })),
        });
        let flag = Some(AutoscalerApiArgument::Core);
        let (listed, scope) = list_all_autoscalers(&client, flag, None).await.expect("a list");
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["default/web"]);
        let own = Some("default".to_owned());
        let expected =
            ListScope { namespace: own.clone(), is_fallback: true, ..ListScope::default() };
        assert_eq!(scope, expected);
        let sentence = scope.describe_limits().concat();
        assert!(sentence.starts_with("Only the autoscalers of the namespace default are read"));

        let (_, scope) =
            list_all_autoscalers(&client, flag, Some("default")).await.expect("a list");
        assert_eq!(scope, ListScope { namespace: own, ..ListScope::default() });
        assert_eq!(scope.describe_limits(), [""; 0], "the flag selects it");
    }

    #[test]
    fn failed_status_write_is_the_cause_instead_of_the_stored_status() {
        let failing = |name| {
            let condition = json!({
                "type": "AbleToScale", "status": "False", "reason": "FailedGetScale",
                "message": "old failure",
            });
            let mut object = autoscaler("shop", name);
            object["status"] = json!({ "conditions": [condition] });
            ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler")
        };
        let mut all = ["web", "api"].map(failing);
        let of_cluster = FailedStatusWrites { autoscalers: 2, error: "cannot patch".to_owned() };
        let mut set = |failure: Option<&str>, errors: &[(&str, &str)]| {
            let unstored = errors.iter().map(|(name, error)| {
                let failure = failure.map(ToOwned::to_owned);
                ((*name).to_owned(), UnstoredStatus { error: (*error).to_owned(), failure })
            });
            let failed =
                set_unstored_statuses(&mut all, unstored.collect(), Some(of_cluster.clone()));
            let (settings, policy) = (Settings::default(), SettingPolicy::default());
            let sentences = all.each_ref().map(|one| one.short_report(&settings, &policy).sentence);
            (failed.map(|failed| failed.to_string()), sentences)
        };
        let (failed, sentences) =
            set(None, &[("shop/web", "cannot patch"), ("mail/web", "too large")]);
        let expected = "the controller can't store the status of 1 autoscaler: cannot patch";
        assert_eq!(failed.as_deref(), Some(expected));
        assert_eq!(sentences, ["its status is not stored: cannot patch", "old failure"]);
        let (_, [sentence, _]) = set(Some("no scale"), &[("shop/web", "cannot patch")]);
        assert_eq!(sentence, "no scale; its status is not stored");
        let (failed, _) = set(None, &[("mail/web", "too large")]);
        assert_eq!(failed, None, "the error is of another namespace");
        let (failed, sentences) = set(None, &[]);
        let expected = "the controller can't store the status of 2 autoscalers; the error of one: \
                        cannot patch";
        assert_eq!(failed.as_deref(), Some(expected), "the errors are unknown");
        assert_eq!(sentences, ["old failure", "old failure"]);
    }

    /// The status doesn't say why pods don't count or don't exist.
    #[test]
    fn autoscaler_that_waits_for_pods_has_the_cause_of_the_controller_or_of_the_target() {
        let condition = |name: &str, status: &str, reason: &str| -> Value {
            json!({ "type": name, "status": status, "reason": reason, "message": "" })
        };
        let metric = |part: &str, target: Value| -> Value {
            json!({ "type": "Resource", "resource": { "name": "cpu", part: target } })
        };
        let target = json!({ "type": "Utilization", "averageUtilization": 60 });
        let value = json!({ "averageUtilization": 90, "averageValue": "100m" });
        let object = json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": {
                "minReplicas": 2, "maxReplicas": 9, "metrics": [metric("target", target)],
                "scaleTargetRef": { "kind": "Deployment", "name": "web" },
            },
            "status": {
                "currentReplicas": 4, "desiredReplicas": 4,
                "currentMetrics": [metric("current", value)],
                "conditions": [
                    condition("AbleToScale", "True", "ReadyForNewScale"),
                    condition("ScalingActive", "True", "ValidMetricFound"),
                    condition("ScalingLimited", "False", "DesiredWithinRange"),
                ],
            },
        });
        let one = ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler");
        let mut all = [one];
        let sentence = |one: &ListedAutoscaler| {
            one.short_report(&Settings::default(), &SettingPolicy::default()).sentence
        };
        let decision = "6 pods match the selector".to_owned();
        let activity = AutoscalerActivity {
            last_decision: Some(decision.clone()),
            unschedulable_pods: None,
            unready_pods: None,
            overwritten_scalings: Some(OverwrittenScalings { count: 3, seen_at: None }),
        };
        set_activities(&mut all, [("shop/web".to_owned(), activity)].into());
        let overwritten = "another client has changed the replicas after at least 3 scalings";
        assert_eq!(sentence(&all[0]), format!("{decision}; {overwritten}"));
        all[0].activity.overwritten_scalings = None;
        let scale = Scale { spec_replicas: 4, status_replicas: 3, selector: "app=web".into() };
        let replica_failure = Some("exceeded quota".to_owned());
        all[0].target_pods = Some(TargetPods { scale, replica_failure });
        let sentence = sentence(&all[0]);
        assert!(sentence.ends_with("; 3 of 4 pods exist: exceeded quota"), "{sentence}");
    }

    #[test]
    fn undecodable_autoscaler_does_not_hide_the_others() {
        let out_of_range = "9999-12-31T23:59:59Z";
        let scaled_at = |name, last_scale_time: Value| {
            let mut object = autoscaler("shop", name);
            object["metadata"]["managedFields"] =
                json!([{ "manager": "kubectl", "subresource": "status", "time": out_of_range }]);
            object["status"] = json!({ "lastScaleTime": last_scale_time });
            object
        };
        let objects = [scaled_at("evil", out_of_range.into()), scaled_at("web", Value::Null)];
        let (decoded, warning) = decode_all(AutoscalerApi::Core, &objects);
        let names: Vec<_> = decoded.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["shop/web"]);
        assert_eq!(decoded[0].controller.at, None);
        let warning = warning.expect("a warning");
        let expected = "unable to decode the autoscaler shop/evil: status.lastScaleTime: ";
        assert!(warning.starts_with(expected), "{warning}");
        let (_, none) = decode_all(AutoscalerApi::Core, &objects[1..]);
        assert_eq!(none, None);
    }
}
