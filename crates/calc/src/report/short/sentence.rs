//! The sentence of a short report.

use super::{State, Surroundings, disabled_limit, missing_metrics, true_reason};
use crate::{
    api::{Condition, ConditionReason, ConditionType, HorizontalPodAutoscaler, Scale},
    explain::{counted, metric_name, one_line, policy_text},
    messages::UNABLE_TO_UPDATE_SCALE,
    pause::Pause,
    report::{
        phrases::{SettingOrigin, paused_text},
        reported::{UNABLE_TO_COMPUTE, failed_metrics, root_cause},
    },
};

/// The cause of the state. `measured` is the largest measurement, or the text about an active
/// fallback.
pub(super) fn sentence(
    hpa: &HorizontalPodAutoscaler,
    state: State,
    measured: Option<String>,
    pause: Option<&str>,
    surroundings: Surroundings<'_>,
) -> String {
    let Surroundings { scale, replica_failure, unschedulable_pods, last_decision, .. } =
        surroundings;
    let (status, spec) = (&hpa.status, &hpa.spec);
    let limited_by = true_reason(hpa, &ConditionType::ScalingLimited);
    let limit = match state {
        State::New => return "no controller has stored a status yet".to_owned(),
        State::DryRun => {
            let origin = SettingOrigin::new(hpa, "dry-run");
            return format!("dry run by {origin}; nothing is written");
        }
        State::Failing => {
            let cause = status.failed_condition().map(|failed| cause_text(hpa, failed));
            return join_clauses([pause.map(str::to_owned), cause]);
        }
        State::Off => return "autoscaling is off because the target is at 0 replicas".to_owned(),
        State::Paused => return join_clauses([pause.map(str::to_owned), measured]),
        State::MetricMissing => {
            let missing: Vec<_> = missing_metrics(hpa).collect();
            let missing = format!("no value of {}, so it only scales up", missing.join(" and "));
            return join_clauses([Some(missing), measured]);
        }
        State::AtMaximum => {
            let bound = bound_text(hpa, "maxReplicas", spec.max_replicas);
            match last_decision {
                // It has the number of unready pods, which the status lacks.
                Some(decision) if decision.contains("maxReplicas") => return decision.to_owned(),
                // Only a past recommendation is above the maximum, or the decision is newer than
                // the status.
                Some(decision) => return format!("{decision}; {bound}"),
                None => bound,
            }
        }
        State::AtMinimum => bound_text(hpa, "minReplicas", spec.effective_min_replicas()),
        State::Scaling => {
            let (current, desired) = (status.current_replicas, status.desired_replicas);
            match true_reason(hpa, &ConditionType::AbleToScale) {
                Some(ConditionReason::SucceededRescale) => {
                    format!("scaled from {current} to {desired}")
                }
                // For example, after a pause that another controller ignores.
                _ => format!("has {}, {desired} desired", counted(current, "replica")),
            }
        }
        State::RateLimited => {
            let disabled = disabled_limit(hpa);
            policy_text(spec, limited_by.or(disabled.as_ref()), status.desired_replicas)
        }
        State::Stabilizing if limited_by == Some(&ConditionReason::TooManyReplicas) => {
            format!(
                "stabilization holds more than {}, {}",
                status.desired_replicas,
                bound_text(hpa, "maxReplicas", spec.max_replicas)
            )
        }
        State::Stabilizing => format!("stabilization holds {}", status.desired_replicas),
        State::WaitingForPods => match scale {
            Some(Scale { spec_replicas, status_replicas, .. })
                if status_replicas < spec_replicas =>
            {
                let cause = replica_failure.map(|failure| format!(": {failure}"));
                let cause = cause.unwrap_or_default();
                let unschedulable = unschedulable_pods.map(|pods| format!("; {pods}"));
                let unschedulable = unschedulable.unwrap_or_default();
                let pods = counted(*spec_replicas, "pod");
                format!("{status_replicas} of {pods} exist{cause}{unschedulable}")
            }
            _ => match (last_decision, unschedulable_pods) {
                (Some(decision), _) => return decision.to_owned(),
                (None, Some(pods)) => pods.to_string(),
                // The pods may be those of another workload.
                (None, None) => format!(
                    "stays at {}, maybe because pods of its selector are not ready or not measured",
                    status.desired_replicas
                ),
            },
        },
        State::Steady | State::Fallback => {
            return measured.unwrap_or_else(|| "no metric is reported".to_owned());
        }
    };
    join_clauses([measured, Some(limit)])
}

fn join_clauses(clauses: [Option<String>; 2]) -> String {
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The text about a pause. `None` without one, and in a state in which it doesn't matter. The
/// status can have a pause that `pause` lacks, because the settings are not known.
pub(super) fn pause_text(
    hpa: &HorizontalPodAutoscaler,
    state: State,
    pause: Pause,
) -> Option<String> {
    let is_hidden = state.has_hidden_pause() && hpa.status.is_true(&ConditionType::Paused);
    let is_mentioned =
        state == State::Paused || (state == State::Failing || is_hidden) && pause != Pause::NONE;
    is_mentioned.then(|| paused_text(hpa, pause))
}

/// The text about the bound that the desired replicas are at. A setting may replace the bound of
/// the spec, which may also have changed since the status was stored.
fn bound_text(hpa: &HorizontalPodAutoscaler, name: &str, of_spec: i32) -> String {
    let desired = hpa.status.desired_replicas;
    let has_settings = hpa.status.is_true(&ConditionType::CustomSettings);
    let is_current = has_settings || desired == of_spec;
    format!("{name} {} {desired}", if is_current { "is" } else { "was" })
}

/// The cause in the message of a condition that prevents scaling, without the texts that the
/// reference puts before it.
fn cause_text(hpa: &HorizontalPodAutoscaler, condition: &Condition) -> String {
    /// Prefixes of the reference's messages, and their short forms.
    const PREFIXES: [(&str, &str); 3] = [
        (UNABLE_TO_COMPUTE, ""),
        (
            "the HPA controller was unable to get the target's current scale: ",
            "the target cannot be read: ",
        ),
        (UNABLE_TO_UPDATE_SCALE, "the target cannot be scaled: "),
    ];
    let message = &*condition.message;
    let known = PREFIXES
        .iter()
        .find_map(|(prefix, short)| message.strip_prefix(prefix).map(|rest| (*short, rest)));
    let (short, rest) = known.unwrap_or(("", message));
    if !short.is_empty() {
        return format!("{short}{rest}");
    }
    let metrics = &hpa.spec.metrics;
    let name = match failed_metrics(hpa, condition).as_slice() {
        [] => None,
        [index] => Some(metric_name(metrics, *index)),
        [index, ..] => metrics.get(*index).map(|spec| one_line(spec.metric_name()).into_owned()),
    };
    let cause = root_cause(rest);
    match name {
        Some(name) => format!("{name} cannot be read: {cause}"),
        None => cause.to_owned(),
    }
}
