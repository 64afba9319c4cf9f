//! Lists the autoscalers of a cluster, with the controllers that stored their statuses and the
//! scales of their targets.

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use futures::{StreamExt, stream};
use hpa_calc::{
    HorizontalPodAutoscaler, Scale, Settings,
    api::Condition,
    explain::one_line,
    report::{ShortReport, State, Surroundings, TargetIndex, TargetKey, enforced_bounds},
    settings::SettingPolicy,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, FailedStatusWrites, settings_of_controller},
    k8s::{StatusController, StatusWrite},
    scale_target::TargetReader,
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::{
    args::AutoscalerApiArgument,
    autoscaler_name::{decode_named, describe_unserved, is_not_served, list_path},
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
    /// The field manager that stored the status last.
    pub(crate) manager: Option<String>,
    /// The controller that acts on it, as far as it is known.
    pub(crate) acting: ActingController,
    /// The error with which the controller failed to store the last status: the stored one is
    /// older. `None` if it is stored, or if that isn't known.
    pub(crate) status_write_error: Option<String>,
    /// The time when `manager` stored the status last.
    pub(crate) status_stored_at: Option<Timestamp>,
    /// The newest writes of other controllers, which `manager` has overwritten.
    pub(crate) overwritten: Vec<StatusWrite>,
    /// The target's scale, if it was read.
    pub(crate) scale: Option<Scale>,
    /// The names of the other autoscalers of the target. Empty until [`set_other_autoscalers`].
    pub(crate) other_autoscalers: Vec<String>,
    /// The conflict with those whose bounds exclude its own.
    pub(crate) bounds_conflict: Option<String>,
}

/// The namespaces of listed autoscalers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListScope {
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// Whether no flag selects the namespace: the user may not list the autoscalers of all
    /// namespaces.
    pub(crate) is_fallback: bool,
}

impl ListScope {
    /// A sentence without a full stop about a namespace that no flag selects.
    pub(crate) fn describe_fallback(&self) -> Option<String> {
        let namespace = self.namespace.as_ref().filter(|_| self.is_fallback)?;
        Some(format!(
            "Only the autoscalers of the namespace {namespace} are read, because you may not list \
             those of all namespaces; -n selects another one"
        ))
    }
}

/// Lists the autoscalers of the APIs that `flag` selects, or else of all served APIs. If the user
/// may not list those of all namespaces, lists those of the kubeconfig context's namespace. Without
/// `flag`, only warns if those of the custom API can't be listed, and is silent about a missing
/// right unless there are no others. Fails if there are none because the namespace doesn't exist.
pub(crate) async fn list_all_autoscalers(
    client: &Client,
    flag: Option<AutoscalerApiArgument>,
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<ListedAutoscaler>, ListScope)> {
    let mut scope = ListScope { namespace: namespace.map(str::to_owned), is_fallback: false };
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
            Err(error) if is_optional && !may_matter(&error, &all) => {}
            listed => {
                let with_advice = |error| with_namespace_advice(error, scope.namespace.as_deref());
                match listed.map_err(with_advice) {
                    Err(error) if is_optional => terminal::warn(format!("{error:#}")),
                    listed => all.extend(listed?),
                }
            }
        }
    }
    if all.is_empty() {
        kubectl::require_namespace(client, scope.namespace.as_deref()).await?;
    }
    Ok((all, scope))
}

/// Whether the reason why the autoscalers of the custom API can't be listed may matter to a user
/// with these others. One without rights for that API has probably no autoscalers of it.
fn may_matter(error: &anyhow::Error, others: &[ListedAutoscaler]) -> bool {
    !kubectl::is_forbidden(error) || others.is_empty()
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
        listed => return Ok((listed?, ListScope { namespace, is_fallback: false })),
    };
    let own = client.default_namespace();
    match list(Some(own.to_owned())).await {
        Err(error) if kubectl::is_forbidden(&error) => Err(anyhow!(
            "{forbidden:#}. You may not list those of the namespace {own} either; -n selects \
             another one"
        )),
        listed => {
            let scope = ListScope { namespace: Some(own.to_owned()), is_fallback: true };
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

/// Sets the errors of status writes, by the names of autoscalers. Returns those of the listed
/// autoscalers instead of `failed`, which counts those of the whole cluster, unless no errors are
/// known.
pub(crate) fn set_status_write_errors(
    all: &mut [ListedAutoscaler],
    mut errors: BTreeMap<String, String>,
    failed: Option<FailedStatusWrites>,
) -> Option<FailedStatusWrites> {
    if errors.is_empty() {
        return failed;
    }
    for one in all.iter_mut() {
        one.status_write_error = errors.remove(&one.name);
    }
    let mut errors = all.iter().filter_map(|one| one.status_write_error.clone());
    let error = errors.next()?;
    Some(FailedStatusWrites { autoscalers: 1 + errors.count(), error })
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

/// Reads the scales of the autoscalers whose short reports need them: the status of an autoscaler
/// doesn't have the target's number of pods. A scale that can't be read stays unknown.
pub(crate) async fn read_scales(
    client: &Client,
    timeout: Duration,
    autoscalers: &mut [ListedAutoscaler],
    settings: &Settings,
    policy: &SettingPolicy,
) {
    let targets = &TargetReader::new(client, timeout);
    let without_scale =
        autoscalers.iter_mut().filter(|one| one.short_report(settings, policy).needs_scale());
    let reads = without_scale.take(MAX_SCALES).map(|one| async move {
        let target = targets.scale(&one.hpa).await;
        one.scale = target.ok().map(|target| target.scale);
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
            acting: ActingController::of_status(controller.is_reference()),
            created: string_at(object, "/metadata/creationTimestamp").parse().ok(),
            manager: controller.name,
            status_write_error: None,
            status_stored_at: controller.at,
            overwritten: controller.overwritten,
            api,
            name,
            hpa,
            scale: None,
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
        let surroundings = Surroundings {
            scale: self.scale.as_ref(),
            other_autoscalers: &self.other_autoscalers,
            bounds_conflict: self.bounds_conflict.as_deref(),
        };
        let mut report = ShortReport::with_surroundings(&self.hpa, &resolved, surroundings);
        if let Some(error) = &self.status_write_error {
            report.state = State::Failing;
            report.cause = one_line(&format!("its status is not stored: {error}")).into_owned();
            report.sentence.clone_from(&report.cause);
            (report.load, report.has_missing_metric) = (None, false);
        }
        report
    }

    /// The condition that prevents scaling, if there is one.
    pub(crate) fn failed_condition(&self) -> Option<&Condition> {
        self.hpa.status.failed_condition()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hpa_controller::k8s::{ClientLimits, Clients};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn forbidden_lists_name_the_flag_for_another_namespace() {
        let forbidden = tower::service_fn(|_: Request<Body>| async {
            let body = Body::from(br#"{"message":"not permitted"}"#.to_vec());
            Ok::<_, Infallible>(Response::builder().status(403).body(body).expect("a response"))
        });
        let client = Clients::from_service(forbidden, &ClientLimits::default()).api;
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
        let absent = tower::service_fn(|_: Request<Body>| async {
            let body = Body::from(b"404 page not found".to_vec());
            Ok::<_, Infallible>(Response::builder().status(404).body(body).expect("a response"))
        });
        let client = Clients::from_service(absent, &ClientLimits::default()).api;
        let flag = Some(AutoscalerApiArgument::Custom);
        let error = list_all_autoscalers(&client, flag, None).await.err().expect("not served");
        let expected = "autoscaling.hpa-rs.dev/v2 is not installed (hpa crd prints its definition)";
        assert_eq!(format!("{error:#}"), expected);
    }

    #[tokio::test]
    async fn missing_right_for_the_custom_api_matters_only_without_other_autoscalers() {
        let forbidden = tower::service_fn(|_: Request<Body>| async {
            let body = Body::from(br#"{"message":"not permitted"}"#.to_vec());
            Ok::<_, Infallible>(Response::builder().status(403).body(body).expect("a response"))
        });
        let client = Clients::from_service(forbidden, &ClientLimits::default()).api;
        let listed = list_autoscalers(&client, AutoscalerApi::Custom, None).await;
        let error = listed.err().expect("forbidden");
        let object = json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "web" } },
        });
        let other = ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler");
        assert!(!may_matter(&error, std::slice::from_ref(&other)));
        assert!(may_matter(&error, &[]));
        assert!(may_matter(&anyhow!("no response"), &[other]));
    }

    #[tokio::test]
    async fn own_namespace_is_listed_if_listing_all_is_forbidden() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let own = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
            let target = json!({ "kind": "Deployment", "name": "web" });
            let autoscaler = json!({
                "metadata": { "namespace": "default", "name": "web" },
                "spec": { "maxReplicas": 3, "scaleTargetRef": target },
            });
            let (status, body) = match request.uri().path() {
                path if path == own => (200_u16, json!({ "metadata": {}, "items": [autoscaler] })),
                _ => (403, json!({ "message": "not permitted" })),
            };
            let body = Body::from(body.to_string().into_bytes());
            let response = Response::builder().status(status).body(body);
            Ok::<_, Infallible>(response.expect("a response"))
        });
        let client = Clients::from_service(service, &ClientLimits::default()).api;
        let flag = Some(AutoscalerApiArgument::Core);
        let (listed, scope) = list_all_autoscalers(&client, flag, None).await.expect("a list");
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["default/web"]);
        let own = Some("default".to_owned());
        assert_eq!(scope, ListScope { namespace: own.clone(), is_fallback: true });
        let sentence = scope.describe_fallback().expect("a sentence");
        assert!(sentence.starts_with("Only the autoscalers of the namespace default are read"));

        let (_, scope) =
            list_all_autoscalers(&client, flag, Some("default")).await.expect("a list");
        assert_eq!(scope, ListScope { namespace: own, is_fallback: false });
        assert_eq!(scope.describe_fallback(), None, "the flag selects it");
    }

    #[tokio::test]
    async fn deep_managed_fields_of_a_tenant_do_not_hide_the_autoscalers_of_others() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        let autoscaler = |namespace, fields: &Value| {
            let entry = json!({ "manager": "hpa-controller", "subresource": "status",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": fields });
            let target = json!({ "kind": "Deployment", "name": "web" });
            json!({
                "metadata": { "namespace": namespace, "name": "web", "managedFields": [entry] },
                "spec": { "maxReplicas": 3, "scaleTargetRef": target },
            })
        };
        let items = [autoscaler("evil", &deep), autoscaler("shop", &json!({}))];
        let list = json!({ "metadata": {}, "items": items }).to_string();
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = Body::from(list.clone().into_bytes());
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let client = Clients::from_service(service, &ClientLimits::default()).api;
        let listed = list_autoscalers(&client, AutoscalerApi::Core, None).await.expect("a list");
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["evil/web", "shop/web"]);
        assert!(listed.iter().all(|one| one.manager.as_deref() == Some("hpa-controller")));
        assert!(listed.iter().all(|one| one.status_stored_at.is_some()));
    }

    #[test]
    fn status_that_is_not_stored_is_not_judged() {
        let autoscaler = |name| {
            let target = json!({ "kind": "Deployment", "name": name });
            let condition = json!({
                "type": "AbleToScale", "status": "False", "reason": "FailedGetScale",
                "message": "old failure",
            });
            let object = json!({
                "metadata": { "namespace": "shop", "name": name },
                "spec": { "maxReplicas": 3, "scaleTargetRef": target },
                "status": { "conditions": [condition] },
            });
            ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler")
        };
        let mut all = ["web", "api"].map(autoscaler);
        let of_cluster = FailedStatusWrites { autoscalers: 2, error: "cannot patch".to_owned() };
        let mut set = |errors: &[(&str, &str)]| {
            let errors =
                errors.iter().map(|(name, error)| ((*name).to_owned(), (*error).to_owned()));
            let failed =
                set_status_write_errors(&mut all, errors.collect(), Some(of_cluster.clone()));
            let (settings, policy) = (Settings::default(), SettingPolicy::default());
            let sentences = all.each_ref().map(|one| one.short_report(&settings, &policy).sentence);
            (failed.map(|failed| failed.to_string()), sentences)
        };
        let (failed, sentences) = set(&[("shop/web", "cannot patch"), ("mail/web", "too large")]);
        let expected = "the controller can't store the status of 1 autoscaler: cannot patch";
        assert_eq!(failed.as_deref(), Some(expected));
        assert_eq!(sentences, ["its status is not stored: cannot patch", "old failure"]);
        let (failed, _) = set(&[("mail/web", "too large")]);
        assert_eq!(failed, None, "the error is of another namespace");
        let (failed, sentences) = set(&[]);
        let expected = "the controller can't store the status of 2 autoscalers; the error of one: \
                        cannot patch";
        assert_eq!(failed.as_deref(), Some(expected), "the errors are unknown");
        assert_eq!(sentences, ["old failure", "old failure"]);
    }

    #[test]
    fn undecodable_autoscaler_does_not_hide_the_others() {
        let end = "9999-12-31T23:59:59Z";
        let autoscaler = |name, last_scale_time: Value| {
            json!({
                "metadata": { "namespace": "shop", "name": name, "managedFields": [
                    { "manager": "kubectl", "subresource": "status", "time": end },
                ] },
                "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": name } },
                "status": { "lastScaleTime": last_scale_time },
            })
        };
        let objects = [autoscaler("evil", end.into()), autoscaler("web", Value::Null)];
        let (decoded, warning) = decode_all(AutoscalerApi::Core, &objects);
        let names: Vec<_> = decoded.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["shop/web"]);
        assert_eq!(decoded[0].status_stored_at, None);
        let warning = warning.expect("a warning");
        let expected = "unable to decode the autoscaler shop/evil: status.lastScaleTime: ";
        assert!(warning.starts_with(expected), "{warning}");
        let (_, none) = decode_all(AutoscalerApi::Core, &objects[1..]);
        assert_eq!(none, None);
    }
}
