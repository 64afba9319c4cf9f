//! Checks of the autoscalers, by the conditions in their statuses.

use std::collections::BTreeMap;

use hpa_calc::{
    Settings,
    api::ConditionReason,
    explain::{counted, one_line},
    go_text::truncate,
    report::{ShortReport, State, Warning, describe_built_in, root_cause},
    settings::SettingPolicy,
    shell::quote,
};
use hpa_controller::debug::ActingController;
use jiff::SignedDuration;

use super::{
    check::{Check, Level},
    cluster::ClusterState,
    controller::{describe_lease_error, lowercase_first},
};
use crate::{
    debug_client::LeaseName, listed_autoscalers::ListedAutoscaler, terminal::shorten_names,
};

/// An autoscaler without a status is an error if it is older than this.
const MAX_AGE_WITHOUT_STATUS: SignedDuration = SignedDuration::from_mins(2);

/// The maximum number of characters of a cause in the headline.
const MAX_CAUSE_CHARS: usize = 300;

/// The failing autoscalers by reason, with a sentence about the first one.
type FailuresByReason = BTreeMap<String, (Vec<String>, String)>;

/// `built_in` is the check of kube-controller-manager.
pub(super) fn check(cluster: &ClusterState, built_in: &Check) -> Vec<Check> {
    let all = &cluster.autoscalers;
    let settings = cluster
        .status
        .as_ref()
        .map_or_else(|_| Settings::default(), |status| status.settings.into());
    let mut failing = FailuresByReason::new();
    let mut root_causes = BTreeMap::<&str, usize>::new();
    let mut by_state = BTreeMap::<State, Vec<String>>::new();
    let mut by_warning = BTreeMap::<(Warning, String), Vec<String>>::new();
    let mut by_pause = BTreeMap::<String, Vec<String>>::new();
    let (mut unstored, mut waiting) = (Vec::new(), Vec::new());
    // Autoscalers whose targets are scaled by several controllers.
    let mut contested = Vec::new();
    let (mut unhandled, mut new_count, mut paused_count) = (Vec::new(), 0, 0);
    for autoscaler in all {
        let report = autoscaler.short_report(&settings, &SettingPolicy::default());
        let is_problem = report.is_problem(cluster.now);
        // The cause is without the warnings, because each warning has its own check.
        let ShortReport { state, cause, pause, warnings, has_missing_metric, .. } = report;
        if has_missing_metric && state != State::MetricMissing {
            by_state.entry(State::MetricMissing).or_default().push(autoscaler.name.clone());
        }
        if let Some(pause) = pause {
            by_pause.entry(pause).or_default().push(autoscaler.name.clone());
        }
        // The report has no such warning if the sentence already names the others.
        let is_shared =
            !autoscaler.other_autoscalers.is_empty() && autoscaler.bounds_conflict.is_none();
        let shared = is_shared.then_some(Warning::SharedTarget);
        let of_settings = warnings.into_iter().filter(|one| *one != Warning::SharedTarget);
        for warning in of_settings.chain(shared) {
            if warning == Warning::SharedTarget && has_other_controller(cluster, autoscaler) {
                contested.push(autoscaler.name.clone());
            } else {
                let text = describe_warning(warning, autoscaler.acting);
                let names = by_warning.entry((warning, text)).or_default();
                names.push(autoscaler.name.clone());
            }
        }
        match state {
            _ if autoscaler.status_write_error.is_some() => unstored.push(autoscaler),
            State::Failing if fails_by_conflict(autoscaler) => {}
            State::Failing => {
                let failed = autoscaler.failed_condition();
                let reason = failed.map(|failed| failed.reason.to_string()).unwrap_or_default();
                let root_cause = failed.map_or("", |failed| root_cause(&failed.message));
                *root_causes.entry(root_cause).or_default() += 1;
                let entry = failing.entry(reason).or_insert((Vec::new(), cause));
                entry.0.push(autoscaler.name.clone());
            }
            State::New if is_overdue(cluster, autoscaler) => {
                unhandled.push(autoscaler.name.clone());
            }
            State::New => new_count += 1,
            State::WaitingForPods if is_problem => waiting.push((&autoscaler.name, cause)),
            State::Paused => paused_count += 1,
            state => by_state.entry(state).or_default().push(autoscaler.name.clone()),
        }
    }
    let off_or_dry_run =
        [State::Off, State::DryRun].map(|state| by_state.get(&state).map_or(0, Vec::len));
    let inactive_count = off_or_dry_run.iter().sum::<usize>() + paused_count;
    let failing_count =
        failing.values().map(|(names, _)| names.len()).sum::<usize>() + unhandled.len();
    let shared_cause = describe_shared_cause(&root_causes, failing_count);
    let mut checks =
        vec![summarize(cluster, failing_count, &shared_cause, inactive_count, new_count)];
    checks.extend(unstored_check(&unstored));
    let fallback = cluster.scope.describe_fallback();
    checks.extend(fallback.map(|text| Check::new(Level::Skipped, lowercase_first(&text))));
    checks.extend(failing_checks(&failing));
    checks.extend(unhandled_check(cluster, &built_in.text, &unhandled));
    checks.extend(conflict_check(all));
    let mut add = |level, names: Option<&Vec<String>>, state: &str| {
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            let text =
                format!("{} {state}: {}", counted(names.len(), "autoscaler"), shorten_names(names));
            checks.push(Check::new(level, text));
        }
    };
    add(
        Level::Error,
        Some(&contested),
        "sharing a target with an autoscaler of another controller, so the replicas may flap",
    );
    for (state, text) in [
        (State::Fallback, "at the replicas of a fallback, because metrics fail (FallbackActive)"),
        (State::AtMaximum, "held at maxReplicas (TooManyReplicas)"),
        (State::Off, "off, because the target has 0 replicas (ScalingDisabled)"),
        (State::DryRun, "in dry run, so nothing is written"),
        (State::MetricMissing, "without the values of some metrics, so they only scale up"),
    ] {
        add(Level::Warning, by_state.get(&state), text);
    }
    for (pause, names) in &by_pause {
        add(Level::Warning, Some(names), pause);
    }
    for ((_, text), names) in &by_warning {
        add(Level::Warning, Some(names), text);
    }
    checks.extend(waiting_check(&waiting));
    checks
}

/// The end of a clause about autoscalers with a warning.
fn describe_warning(warning: Warning, acting: ActingController) -> String {
    let (is_built_in_writer, is_unknown) = match acting {
        // The warning is from a status that kube-controller-manager stored.
        ActingController::HpaRs => (true, false),
        ActingController::KubeControllerManager { is_built_in_writer } => {
            (is_built_in_writer, false)
        }
        ActingController::Unknown { is_built_in_writer } => (is_built_in_writer, true),
    };
    if warning == Warning::SharedTarget {
        return "with the target of another autoscaler".to_owned();
    }
    let (settings, obey) = match warning {
        Warning::PauseIgnored => ("a pause", "obey"),
        Warning::DryRunIgnored => ("a dry run", "obey"),
        Warning::SettingsIgnored => ("settings", "apply"),
        Warning::ExtraPods => {
            return "with a selector that matches pods of other owners, which count too \
                    (SelectorMatchesExtraPods)"
                .to_owned();
        }
        _ => return "with settings that are not used as written (InvalidSettings)".to_owned(),
    };
    let built_in = describe_built_in(is_built_in_writer, is_unknown);
    let of_hpa_rs = if is_unknown { format!(" and hpa-rs would {obey}") } else { String::new() };
    format!("with {settings} that {built_in} ignores{of_hpa_rs}")
}

/// The check of autoscalers to which no controller has given a status in time. The hint has what
/// was read about the controllers. `None` if there are none.
fn unhandled_check(cluster: &ClusterState, built_in: &str, names: &[String]) -> Option<Check> {
    if names.is_empty() {
        return None;
    }
    let text = format!(
        "{} without a status: maybe no controller handles them: {}",
        counted(names.len(), "autoscaler"),
        shorten_names(names)
    );
    let own = match (&cluster.url, &cluster.holder) {
        (Some(url), _) => match &cluster.status {
            Ok(_) => format!("the controller at {url} answers"),
            Err(error) => format!("the controller at {url} can't be read: {error}"),
        },
        (None, Ok(holder)) if holder.is_expired(cluster.now) => holder.describe_expiry(cluster.now),
        (None, Ok(holder)) => {
            let LeaseName { namespace, name } = &holder.lease;
            format!("{} holds the lease {namespace}/{name}", holder.host_name())
        }
        (None, Err(error)) => describe_lease_error(error),
    };
    let hint = format!(
        "their status has no conditions {MAX_AGE_WITHOUT_STATUS:#} after their creation; {own}; \
         {built_in}"
    );
    Some(Check::new(Level::Error, text).with_hint(hint))
}

/// Whether the autoscaler can't scale at times because of another one whose bounds exclude its own:
/// the condition comes and goes with the replicas.
fn fails_by_conflict(autoscaler: &ListedAutoscaler) -> bool {
    let failed = autoscaler.failed_condition();
    let failed = failed.filter(|failed| failed.reason == ConditionReason::AmbiguousSelector);
    failed.is_some() && autoscaler.bounds_conflict.is_some()
}

/// The check of autoscalers whose bounds exclude those of others of their targets. `None` if there
/// are none.
fn conflict_check(all: &[ListedAutoscaler]) -> Option<Check> {
    let conflicts = all.iter().filter_map(|one| Some((&one.name, one.bounds_conflict.as_ref()?)));
    let (name, conflict) = conflicts.clone().next()?;
    let names: Vec<_> = conflicts.map(|(name, _)| name.clone()).collect();
    let text = format!(
        "{} with bounds that exclude those of another one of the target: {}",
        counted(names.len(), "autoscaler"),
        shorten_names(&names)
    );
    let hint = format!("{name} {conflict}; delete one; hpa explain {}", quote(name));
    Some(Check::new(Level::Error, text).with_hint(hint))
}

/// The check of autoscalers whose stored statuses are older than the controller's last decisions.
/// `None` if there are none.
fn unstored_check(unstored: &[&ListedAutoscaler]) -> Option<Check> {
    let error = unstored.first()?.status_write_error.as_ref()?;
    let names: Vec<_> = unstored.iter().map(|one| one.name.clone()).collect();
    let text = format!(
        "{} without a check, because the status is not stored: {}",
        counted(names.len(), "autoscaler"),
        shorten_names(&names)
    );
    // The controller's check has the error.
    Some(Check::new(Level::Error, text).into_repetition().with_hint(error))
}

/// The check of autoscalers that wait for pods, by name and cause. `None` if there are none.
fn waiting_check(waiting: &[(&String, String)]) -> Option<Check> {
    let (name, cause) = waiting.first()?;
    let names: Vec<_> = waiting.iter().map(|(name, _)| (*name).clone()).collect();
    let count = counted(names.len(), "autoscaler");
    let text = format!("{count} waiting for pods: {}", shorten_names(&names));
    let hint = format!("{cause}; hpa explain {}", quote(name));
    Some(Check::new(Level::Warning, text).with_hint(hint))
}

fn failing_checks(failing: &FailuresByReason) -> impl Iterator<Item = Check> {
    failing.iter().map(|(reason, (names, cause))| {
        let text =
            format!("{reason}: {} ({})", counted(names.len(), "autoscaler"), shorten_names(names));
        let command = names.first().map(|name| format!("; hpa explain {}", quote(name)));
        Check::new(Level::Error, text).with_hint(format!("{cause}{}", command.unwrap_or_default()))
    })
}

/// The end of a clause about the failing autoscalers: the cause that most of them have, with their
/// number. Empty if no two have the same. `root_causes` has the number of autoscalers by cause.
fn describe_shared_cause(root_causes: &BTreeMap<&str, usize>, failing_count: usize) -> String {
    let most_frequent = root_causes.iter().max_by_key(|(_, count)| **count);
    match most_frequent {
        Some((cause, count)) if *count > 1 && !cause.is_empty() => {
            let is_of_all = *count == failing_count;
            let number = if is_of_all { "all".to_owned() } else { count.to_string() };
            let cause = truncate(one_line(cause).into_owned(), MAX_CAUSE_CHARS);
            format!("; {number} of them: {cause}")
        }
        _ => String::new(),
    }
}

/// Sums up the statuses of the autoscalers. Inactive ones are off, paused or in dry run. New ones
/// have no status yet.
fn summarize(
    cluster: &ClusterState,
    failing_count: usize,
    shared_cause: &str,
    inactive_count: usize,
    new_count: usize,
) -> Check {
    let count = cluster.autoscalers.len();
    let is_unstored = |one: &&ListedAutoscaler| one.status_write_error.is_some();
    let unstored_count = cluster.autoscalers.iter().filter(is_unstored).count();
    let namespace = cluster.scope.namespace.as_ref();
    let namespace = namespace.map(|namespace| format!(" in the namespace {namespace}"));
    let namespace = namespace.unwrap_or_default();
    let all = counted(count, "autoscaler") + &namespace;
    let (level, text) = match (failing_count, new_count, inactive_count) {
        _ if count == 0 => (Level::Warning, format!("there are no autoscalers{namespace}")),
        (1.., ..) => (Level::Error, format!("{failing_count} of {all} can't scale{shared_cause}")),
        (0, 1.., _) => (Level::Skipped, format!("{new_count} of {all} without a status yet")),
        (0, 0, _) if unstored_count > 0 => {
            (Level::Skipped, format!("whether {unstored_count} of {all} can scale is unknown"))
        }
        (0, 0, 0) => (Level::Ok, format!("{all} can scale")),
        (0, 0, inactive) if inactive == count => (Level::Ok, format!("{all} without errors")),
        (0, 0, inactive) => (Level::Ok, format!("{} of {all} can scale", count - inactive)),
    };
    let check = Check::new(level, text);
    // Each problem has its own check.
    if failing_count > 0 { check.into_repetition() } else { check }
}

/// Whether a different controller stored the status of another autoscaler of the target.
fn has_other_controller(cluster: &ClusterState, autoscaler: &ListedAutoscaler) -> bool {
    let others = cluster.autoscalers.iter();
    let mut others = others.filter(|other| autoscaler.other_autoscalers.contains(&other.name));
    controller_of(cluster, autoscaler).is_some_and(|controller| {
        others.any(|other| controller_of(cluster, other).is_some_and(|one| one != controller))
    })
}

/// The controller that stored the status last. `None` if it has lost its lease or is switched off.
fn controller_of<'a>(cluster: &ClusterState, autoscaler: &'a ListedAutoscaler) -> Option<&'a str> {
    let manager = autoscaler.manager.as_deref()?;
    let has_stopped =
        cluster.is_switched_off(manager) || cluster.leases().is_running(manager) == Some(false);
    (!has_stopped).then_some(manager)
}

/// Whether the autoscaler is so old that a controller should have stored a status.
fn is_overdue(cluster: &ClusterState, autoscaler: &ListedAutoscaler) -> bool {
    let age = autoscaler.created.map(|created| cluster.now.duration_since(created));
    age.is_some_and(|age| age > MAX_AGE_WITHOUT_STATUS)
}
