//! Advice about a decision: the actions that a person can take.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    doubt::Context,
    error_texts::{ALSO_NOT_BY_API, is_api_missing},
    failed_write,
    failure::{about_age, about_failure, about_negative_value, about_unread, negative_value},
    headline,
    inputs::Inputs,
    limits::history_limits,
    metrics::{MetricReport, PodReport},
    phrases::{SettingOrigin, names, namespace},
    reported::ReportedMetrics,
    reported_cause, shared_target,
    source_failure::rules_explain_command,
    target_pods::{
        about_absent_pods, about_surge_pods, about_unready_pods, lacks_existing_pods,
        long_pending_count, pods_with_advice,
    },
    warning::{Warning, setting_warnings},
};
use crate::{
    api::{Condition, ConditionType, HorizontalPodAutoscaler, MetricSourceType, PolicySelect},
    behavior::EffectiveBehavior,
    decision::Decision,
    explain::{MetricExplanation, Reason, counted},
    history::Direction,
    pause::Pause,
    plan::{PlanKind, ScaleReadError, SelectorRejection},
    pods::PodClass,
    replicas::{Rule, pod_count},
    shell::quote,
};

/// The [`SelectedPods::ownership_error`](crate::SelectedPods::ownership_error) of pods that were
/// read from files.
pub const FILES_LACK_OWNERS: &str = "the files don't have the owners";

/// The types of external metrics that collectors read, as in the registry of `hpa-collectors`,
/// which depends on this crate. A test of `hpa explain` compares the two.
const COLLECTOR_TYPES: [&str; 11] = [
    "flux-query",
    "http",
    "influxdb",
    "json-path",
    "nakadi",
    "prometheus",
    "prometheus-query",
    "requests-per-second",
    "sqs-queue-length",
    "zmon",
    "zmon-check",
];

pub(super) fn advise(
    context: &Context<'_>,
    metrics: &[MetricReport],
    advice_of_caller: &BTreeMap<usize, String>,
    limit_advice: Option<&String>,
) -> Vec<String> {
    let Context { inputs, decision, reported, failure, .. } = context;
    let mut advice = Vec::new();
    advice.extend(failure.as_ref().map(|failure| failure.advice(inputs, metrics)));
    // In a dry run, another controller stores the status.
    advice.extend(failed_write::advice(&inputs.hpa).filter(|_| !inputs.settings.dry_run));
    advice.extend(about_plan(inputs));
    for metric in metrics {
        let known = advice_of_caller.get(&metric.index);
        advice.extend(about_metric(inputs, reported, metric, known));
    }
    let has_failed = metrics.iter().any(|metric| {
        let MetricExplanation { failure, proposed_replicas, .. } = &metric.explanation;
        failure.is_some() && proposed_replicas.is_none() && !reported.has_value(metric.index)
    });
    if has_failed && metrics.iter().any(|metric| metric.explanation.failure.is_none()) {
        advice.push(
            "While a metric fails, the autoscaler scales up by the others, but not down."
                .to_owned(),
        );
    }
    advice.extend(metrics.iter().filter_map(|metric| about_age(inputs, metric)));
    advice.extend(about_absent_pods(inputs, decision));
    advice.extend(about_unready_pods(inputs, decision));
    advice.extend(about_uncounted_pods(inputs, decision, metrics));
    advice.extend(about_unselected_samples(metrics));
    advice.extend(about_surge_pods(inputs, metrics));
    advice.extend(about_extra_pods(inputs, metrics));
    let warnings = setting_warnings(&inputs.hpa, &inputs.settings).into_iter();
    advice.extend(warnings.map(|(warning, text)| about_warning(warning, &text, &inputs.hpa)));
    advice.extend(about_pause(inputs));
    // A decision that fails writes no scale, with or without the dry run.
    if inputs.settings.dry_run && decision.explanation().reason() != Reason::Failed {
        let origin = SettingOrigin::new(&inputs.hpa, "dry-run").with_name();
        advice.push(format!("Remove {origin} to let the controller write its decisions."));
    }
    let invalid = headline::invalid_bounds(inputs);
    advice.extend(invalid.map(|invalid| format!("Correct the bounds: {invalid}.")));
    advice.extend(limit_advice.cloned());
    advice.extend(about_controller(inputs, decision));
    // Metrics of one API mostly fail alike.
    let mut given = BTreeSet::new();
    advice.retain(|one| given.insert(one.clone()));
    advice
}

/// Advice about one metric. `known` is the advice of the caller, which may know the metric's
/// source.
fn about_metric(
    inputs: &Inputs,
    reported: &ReportedMetrics<'_>,
    metric: &MetricReport,
    known: Option<&String>,
) -> Vec<String> {
    let (index, name) = (metric.index, &metric.name);
    let Some(failure) = metric.explanation.failure else {
        let wrong_value = about_negative_value(inputs, metric);
        return wrong_value.or_else(|| known.cloned()).into_iter().collect();
    };
    let advice = match (reported.cause(index), known) {
        // The caller may know why no collector reads the metric.
        (Some(cause), Some(known))
            if reported_cause::ignores_annotations(inputs, index, cause)
                || cause.contains(ALSO_NOT_BY_API) && is_of_collector(inputs, index) =>
        {
            known.clone()
        }
        (Some(cause), _) => return reported_cause::advise(inputs, metric, cause, known),
        (None, Some(known)) => {
            let start = reported.describe_success(index, name).map(|start| format!("{start} "));
            start.unwrap_or_default() + known
        }
        (None, None) if let Some(start) = reported.describe_success(index, name) => {
            about_unread(inputs, metric, &start)
        }
        (None, None) if reported.is_by_fallback(index) => format!(
            "The fallback of {name} is active, and the controller's status doesn't say why {name} \
             can't be read. The events of the autoscaler and the controller's log do. The error \
             here may have another cause."
        ),
        // The controller may not need the API that is missing here.
        (None, None) if reported.has_own_sources() && is_of_missing_api(metric) => {
            return Vec::new();
        }
        (None, None) if reported.may_be_of_unreadable_source(index, &metric.explanation) => {
            format!(
                "Whether the controller's source has {name} is unknown, because that source can't \
                 be read."
            )
        }
        (None, None) => about_failure(inputs, metric, failure),
    };
    vec![advice]
}

fn about_pause(inputs: &Inputs) -> Option<String> {
    let direction = match inputs.settings.pause {
        Pause::NONE => return None,
        Pause::BOTH => "",
        Pause { up: true, .. } => " up",
        Pause { .. } => " down",
    };
    let origin = SettingOrigin::new(&inputs.hpa, "pause").with_name();
    Some(format!("Remove {origin} to let the autoscaler scale{direction}."))
}

/// Advice if another client changes the replicas after each scaling.
pub(super) fn about_overwritten(text: &str, hpa: &HorizontalPodAutoscaler) -> String {
    let target = &hpa.spec.scale_target_ref;
    format!(
        "Find the client. If it is a deployment tool, remove replicas from its manifest of the \
         target; if it is another autoscaler, keep only one of the two: {text}. The managedFields \
         of the target name the clients that wrote it, with times, and the API server's audit log \
         has their users: kubectl get {} {} --show-managed-fields -o yaml --namespace {}",
        quote(&target.kind),
        quote(&target.name),
        namespace(hpa)
    )
}

fn about_warning(warning: Warning, text: &str, hpa: &HorizontalPodAutoscaler) -> String {
    match warning {
        Warning::InvalidSettings => format!("Correct the {text}."),
        Warning::PauseIgnored => format!(
            "Remove the annotation autoscaling.hpa-rs.dev/pause, unless hpa run is to handle the \
             autoscaler: {text}."
        ),
        Warning::DryRunIgnored => format!(
            "Remove the annotation autoscaling.hpa-rs.dev/dry-run, unless hpa run compares its \
             decisions: {text}."
        ),
        Warning::SettingsIgnored => {
            format!("Remove the settings, unless hpa run is to handle the autoscaler: {text}.")
        }
        Warning::ExtraPods => format!("Check the labels: {text}."),
        Warning::ReplicasOverwritten => about_overwritten(text, hpa),
        Warning::SharedTarget => {
            format!("Merge the autoscalers into one with several metrics: {text}.")
        }
    }
}

/// Whether a metric names a collector by the label `type` of its selector, or else by its own name.
/// Rules don't have such a metric.
fn is_of_collector(inputs: &Inputs, index: usize) -> bool {
    let metric = inputs.hpa.spec.metrics.get(index).and_then(|metric| metric.external.as_ref());
    metric.is_some_and(|external| {
        let selector = external.metric.selector.as_ref();
        let label = selector.and_then(|selector| selector.match_labels.get("type"));
        let name = label.filter(|name| !name.is_empty()).unwrap_or(&external.metric.name);
        COLLECTOR_TYPES.contains(&name.as_str())
    })
}

/// Whether no server is registered for the API of a metric.
fn is_of_missing_api(metric: &MetricReport) -> bool {
    metric.explanation.error.as_deref().is_some_and(is_api_missing)
}

/// Advice if the plan needs no metrics because of a problem with the spec or the target.
fn about_plan(inputs: &Inputs) -> Option<String> {
    let (target, namespace) = (&inputs.hpa.spec.scale_target_ref, namespace(&inputs.hpa));
    let (kind, name) = (&target.kind, &target.name);
    if shared_target::bounds_conflict(inputs).is_some() {
        return Some(format!(
            "Only one autoscaler may scale {kind} {name}: delete the others. Until then, the \
             condition AmbiguousSelector comes and goes, because bounds apply before the check for \
             other autoscalers."
        ));
    }
    Some(match &inputs.plan().kind {
        PlanKind::ScaleUnavailable(ScaleReadError::InvalidApiVersion(_)) => {
            "Correct spec.scaleTargetRef.apiVersion: it must be a group and a version, such as \
             apps/v1."
                .to_owned()
        }
        PlanKind::ScaleUnavailable(ScaleReadError::UnknownKind(_)) => {
            let is_of_apps = matches!(kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet");
            let is_other_group = is_of_apps && !target.api_version.starts_with("apps/");
            let correction = if is_other_group { " Use apps/v1." } else { "" };
            format!(
                "Check spec.scaleTargetRef: kubectl api-resources lists the kinds that the API \
                 server serves, and {}, kind {kind} is not one of them.{correction}",
                target.api_version
            )
        }
        PlanKind::ScaleUnavailable(ScaleReadError::Read(_)) if headline::is_daemon_set(target) => {
            format!(
                "A DaemonSet has no scale: it runs a pod on each node that it selects, so no \
                 autoscaler can scale it. Correct spec.scaleTargetRef, or delete the autoscaler of \
                 {name}."
            )
        }
        PlanKind::ScaleUnavailable(ScaleReadError::Read(_)) => format!(
            "Check that {kind} {name} exists and that its kind has a scale subresource: kubectl \
             get {} {} --subresource=scale --namespace {namespace}",
            quote(kind),
            quote(name)
        ),
        PlanKind::Disabled => {
            let replicas = inputs.hpa.spec.effective_min_replicas().max(1);
            format!(
                "Scaling a target to 0 by hand turns autoscaling off. To turn it on: kubectl scale \
                 {} {} --replicas={replicas} --namespace {namespace}",
                quote(kind),
                quote(name)
            )
        }
        PlanKind::TooManyMetrics => "Remove metrics from spec.metrics.".to_owned(),
        PlanKind::SpecTooLarge { .. } => {
            "Remove metrics from spec.metrics, or shorten their selectors.".to_owned()
        }
        PlanKind::SelectorRejected(SelectorRejection::Missing) => format!(
            "The scale of {kind} {name} has no status.selector. For a custom resource, set \
             labelSelectorPath in the scale subresource of its definition, and have its controller \
             fill that field."
        ),
        PlanKind::SelectorRejected(SelectorRejection::Invalid(_)) => {
            format!("Correct the selector in the scale of {kind} {name}: its status.selector.")
        }
        PlanKind::SelectorRejected(SelectorRejection::Ambiguous { .. }) => {
            let others = headline::other_selecting_autoscalers(inputs).unwrap_or_default();
            let share_target =
                others.iter().all(|other| inputs.selected.sharing_target.contains(other));
            let condition = if share_target {
                ": they have one target."
            } else {
                " if they have one target. Otherwise give the targets selectors that have no pod \
                 in common."
            };
            format!(
                "Only one autoscaler may select a pod. Merge this one and {} into one autoscaler \
                 with several metrics{condition} Until then, none of them scales by metrics. The \
                 exception is the time after a start of the controller until it has seen the \
                 replicas within the bounds of each.",
                names(&others)
            )
        }
        PlanKind::SelectorRejected(SelectorRejection::UnknownOwners(error))
            if error == FILES_LACK_OWNERS =>
        {
            "The owners of pods are read from a cluster only: run hpa explain NAMESPACE/NAME \
             without --filename. Without the annotation autoscaling.hpa-rs.dev/pods, all pods of \
             the selector count."
                .to_owned()
        }
        PlanKind::SelectorRejected(SelectorRejection::UnknownOwners(_)) => {
            "The controller needs the permission to get the owners of the pods, such as \
             ReplicaSets. Without the annotation autoscaling.hpa-rs.dev/pods, all pods of the \
             selector count."
                .to_owned()
        }
        PlanKind::AboveMax | PlanKind::BelowMin | PlanKind::Metrics(_) => return None,
    })
}

/// Advice about pods without a sample that counts, if a ratio includes them.
fn about_uncounted_pods(
    inputs: &Inputs,
    decision: &Decision<'_>,
    metrics: &[MetricReport],
) -> Option<String> {
    let with_advice = pods_with_advice(inputs, decision);
    let is_uncounted = |pod: &&PodReport| {
        matches!(pod.class, PodClass::Unready | PodClass::Missing)
            && !pod.is_starting
            && !with_advice.contains(&*pod.name)
    };
    let includes_uncounted = |metric: &&MetricReport| {
        let explanation = &metric.explanation;
        explanation.rule == Some(Rule::DirectionReversed) || explanation.rebalanced_ratio.is_some()
    };
    let metrics = metrics.iter().filter(includes_uncounted);
    let pods = metrics.flat_map(|metric| {
        metric.pod_list.iter().filter(is_uncounted).map(move |pod| (metric, pod))
    });
    let pods: Vec<(&MetricReport, &PodReport)> = pods.collect();
    if pods.is_empty() {
        return None;
    }
    let is_held_back = pods.iter().any(|(metric, _)| metric.explanation.is_beyond_tolerance());
    let has_unready = pods.iter().any(|(_, pod)| pod.class == PodClass::Unready || pod.is_unready);
    let effect = if is_held_back { " hold the decision back" } else { "" };
    let problem = if has_unready { "are not ready or have no value" } else { "have no value" };
    let without_value = pods.iter().find(|(metric, pod)| {
        metric.source_type == MetricSourceType::Pods && pod.class == PodClass::Missing
    });
    let command = without_value.map(|(metric, pod)| {
        let command = rules_explain_command(&inputs.hpa, metric.index, Some(pod.name.as_str()));
        format!(" If a rule has the metric: {command}")
    });
    let pod_names: BTreeSet<_> = pods.iter().map(|(_, pod)| pod.name.as_str()).collect();
    Some(format!(
        "Pods without a sample that counts{effect}: {}. Check why they {problem}.{}",
        names(pod_names),
        command.unwrap_or_default()
    ))
}

/// Advice about samples that count, although their pods are not among the target's.
fn about_unselected_samples(metrics: &[MetricReport]) -> Option<String> {
    let samples = metrics.iter().filter_map(|metric| metric.unselected_samples.as_ref());
    let counted = samples.filter(|samples| samples.are_counted);
    let pods: BTreeSet<&String> = counted.flat_map(|samples| &samples.pods).collect();
    (!pods.is_empty()).then(|| {
        format!(
            "The metrics API returns samples of pods that are not among the target's: {}. They \
             count in the average.",
            names(pods)
        )
    })
}

/// Advice if more pods count than the target has.
fn about_extra_pods(inputs: &Inputs, metrics: &[MetricReport]) -> Option<String> {
    let scale = inputs.scale.as_ref().ok()?;
    let active_count = |metric: &MetricReport| {
        metric.pod_list.iter().filter(|pod| pod.class != PodClass::Ignored).count()
    };
    let active_count = metrics.iter().map(active_count).max()?;
    let expected = scale.status_replicas.max(scale.spec_replicas);
    (active_count > pod_count(expected)).then(|| {
        format!(
            "The selector matches {}, but the target has {expected}: pods of other workloads, such \
             as Jobs or canaries, count too. Give the target labels of its own.",
            counted(active_count, "pod")
        )
    })
}

/// Advice about the limit that decides. `None` if the controller reported a failure that doesn't
/// occur here: it can't make this decision.
pub(super) fn about_limits(
    context: &Context<'_>,
    metrics: &[MetricReport],
    advice_of_caller: &BTreeMap<usize, String>,
) -> Option<String> {
    let &Context { inputs, decision, .. } = context;
    if context.failure.is_some() {
        return None;
    }
    let explanation = decision.explanation();
    let proposed = explanation.proposed_replicas?;
    let has_wrong_value = explanation.winner.is_some_and(|winner| {
        let metric = metrics.iter().find(|metric| metric.index == winner);
        advice_of_caller.contains_key(&winner)
            || metric.is_some_and(|metric| negative_value(inputs, metric).is_some())
    });
    let direction = Direction::of_change(explanation.current_replicas, proposed);
    let rules = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings).rules(direction);
    let member = if direction == Direction::Up { "scaleUp" } else { "scaleDown" };
    match explanation.reason() {
        // A ratio is multiplied by the pods that exist, and a higher maximum doesn't create the
        // others. While pods stay pending, more of them don't help either.
        Reason::MaxReplicas
            if has_wrong_value
                || lacks_existing_pods(inputs)
                || long_pending_count(inputs) > 0
                || explanation.unschedulable_pods.is_some()
                || explanation.unready_pods.is_some() =>
        {
            None
        }
        Reason::MaxReplicas => {
            let field = maximum_field(inputs);
            let is_by_fallback = explanation.is_by_fallback();
            let asks = if is_by_fallback { "the fallback asks" } else { "the metrics ask" };
            Some(format!("Raise {field} if the cluster has room: {asks} for {proposed}."))
        }
        Reason::Policy if *rules.select_policy() == PolicySelect::Disabled => Some(format!(
            "spec.behavior.{member}.selectPolicy is Disabled. Set it to Max or Min to scale in \
             that direction."
        )),
        _ => None,
    }
}

/// The field that sets the maximum now: that of the spec or of a scheduled entry.
fn maximum_field(inputs: &Inputs) -> String {
    let Some(index) = inputs.settings.entry_of_maximum(inputs.now) else {
        return "spec.maxReplicas".to_owned();
    };
    let origin = SettingOrigin::new(&inputs.hpa, "bounds");
    match origin {
        SettingOrigin::Field(_) => format!("{origin}[{index}].maxReplicas"),
        SettingOrigin::Annotation(_) => {
            format!("bounds[{index}].maxReplicas in {}", origin.with_name())
        }
    }
}

/// Advice from the controller's last status. In a dry run, another controller stores the status.
fn about_controller(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let status = &inputs.hpa.status;
    if inputs.settings.dry_run {
        return None;
    }
    if status.conditions.is_empty() {
        return Some(
            "No controller has stored a status yet. Check that one is running and handles this \
             autoscaler."
                .to_owned(),
        );
    }
    if inputs.history.is_some() || decision.scale_to().is_none() {
        return None;
    }
    let of_history = [Direction::Up, Direction::Down].map(history_limits).concat();
    let is_limit = |condition: &&Condition| of_history.contains(&condition.reason);
    let limits = [&ConditionType::AbleToScale, &ConditionType::ScalingLimited];
    let limits = limits.into_iter().filter_map(|one| status.condition(one)).filter(is_limit);
    let limits = limits.map(|condition| format!("{} ({})", condition.reason, condition.message));
    let limits: Vec<_> = limits.collect();
    (!limits.is_empty()).then(|| {
        format!(
            "The controller's past recommendations and scalings are not known here. It reports {}, \
             so it may stay at {} for now.",
            limits.join(" and "),
            decision.explanation().current_replicas
        )
    })
}
