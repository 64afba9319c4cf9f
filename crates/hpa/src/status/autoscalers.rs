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
    check::{Check, Level, Weight},
    cluster::ClusterState,
    controller::lowercase_first,
    lease::describe_lease_error,
};
use crate::{
    debug_client::KUBE_CONTROLLER_MANAGER, listed_autoscalers::ListedAutoscaler,
    terminal::shorten_names,
};

/// An autoscaler without a status is an error if it is older than this.
const MAX_AGE_WITHOUT_STATUS: SignedDuration = SignedDuration::from_mins(2);

/// The maximum number of characters of a cause in the headline.
const MAX_CAUSE_CHARS: usize = 300;

/// The states that are a warning, with the end of a clause about autoscalers in them.
const WARNING_STATES: [(State, &str); 5] = [
    (State::Fallback, "at the replicas of a fallback, because metrics fail (FallbackActive)"),
    (State::AtMaximum, "held at maxReplicas (TooManyReplicas)"),
    (State::Off, "off, because the target has 0 replicas (ScalingDisabled)"),
    (State::DryRun, "in dry run, so nothing is written"),
    (State::MetricMissing, "without the values of some metrics, so they only scale up"),
];

/// The name of an autoscaler, and the cause of its problem.
type NamedCause = (String, String);

/// `built_in` is the check of kube-controller-manager.
pub(super) fn check(cluster: &ClusterState, built_in: &Check) -> Vec<Check> {
    let all = &cluster.autoscalers;
    let settings = cluster
        .status
        .as_ref()
        .map_or_else(|_| Settings::default(), |status| status.settings.into());
    let mut failing = BTreeMap::<String, Vec<NamedCause>>::new();
    let mut root_causes = BTreeMap::<String, usize>::new();
    let mut by_state = BTreeMap::<State, Vec<String>>::new();
    let mut by_warning = BTreeMap::<(Warning, String), Vec<String>>::new();
    let mut by_pause = BTreeMap::<String, Vec<String>>::new();
    let (mut unstored, mut waiting) = (Vec::<NamedCause>::new(), Vec::<NamedCause>::new());
    // Autoscalers whose targets are scaled by several controllers.
    let mut contested = Vec::new();
    let (mut unhandled, mut new_count, mut paused_count) = (Vec::new(), 0, 0);
    for autoscaler in all {
        let name = &autoscaler.name;
        let report = autoscaler.short_report(&settings, &SettingPolicy::default());
        let is_problem = report.is_problem(cluster.now);
        // The cause is without the warnings, because each warning has its own check.
        let ShortReport { state, cause, pause, warnings, has_missing_metric, .. } = report;
        if has_missing_metric && state != State::MetricMissing {
            by_state.entry(State::MetricMissing).or_default().push(name.clone());
        }
        if let Some(pause) = pause {
            by_pause.entry(pause).or_default().push(name.clone());
        }
        // The report has no such warning if the sentence already names the others.
        let is_shared =
            !autoscaler.other_autoscalers.is_empty() && autoscaler.bounds_conflict.is_none();
        let shared = is_shared.then_some(Warning::SharedTarget);
        let of_settings = warnings.into_iter().filter(|one| *one != Warning::SharedTarget);
        for warning in of_settings.chain(shared) {
            if warning == Warning::SharedTarget && has_other_controller(cluster, autoscaler) {
                contested.push(name.clone());
            } else {
                let text = describe_warning(warning, autoscaler.acting);
                by_warning.entry((warning, text)).or_default().push(name.clone());
            }
        }
        if let Some(error) = &autoscaler.status_write_error {
            unstored.push((name.clone(), error.clone()));
            continue;
        }
        match state {
            State::Failing if fails_by_conflict(autoscaler) => {}
            State::Failing => {
                let failed = autoscaler.failed_condition();
                let reason = failed.map(|failed| failed.reason.to_string()).unwrap_or_default();
                *root_causes.entry(common_cause(autoscaler)).or_default() += 1;
                failing.entry(reason).or_default().push((name.clone(), cause));
            }
            State::New if is_overdue(cluster, autoscaler) => unhandled.push(name.clone()),
            State::New => new_count += 1,
            State::WaitingForPods if is_problem => waiting.push((name.clone(), cause)),
            State::Paused => paused_count += 1,
            state => by_state.entry(state).or_default().push(name.clone()),
        }
    }
    let off_or_dry_run =
        [State::Off, State::DryRun].map(|state| by_state.get(&state).map_or(0, Vec::len));
    let failing_count = failing.values().map(Vec::len).sum();
    let inactive_count = off_or_dry_run.iter().sum::<usize>() + paused_count;
    let shared_cause = describe_shared_cause(&root_causes, failing_count);
    let failing_counts = (failing_count, unhandled.len());
    let mut checks =
        vec![summarize(cluster, failing_counts, &shared_cause, inactive_count, new_count)];
    let unstored = causes_check(Level::Error, &unstored, |count, names| {
        format!("{count} without a check, because the status is not stored: {names}")
    });
    // The controller's check has the error.
    checks.extend(unstored.map(|check| check.with_weight(Weight::Repetition)));
    let fallback = cluster.scope.describe_fallback();
    checks.extend(fallback.map(|text| Check::new(Level::Skipped, lowercase_first(&text))));
    checks.extend(cluster.missing_api.as_ref().map(|text| Check::new(Level::Warning, text)));
    checks.extend(failing.iter().filter_map(|(reason, causes)| {
        causes_check(Level::Error, causes, |count, names| format!("{reason}: {count} ({names})"))
    }));
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
    for (state, text) in WARNING_STATES {
        add(Level::Warning, by_state.get(&state), text);
    }
    for (pause, names) in &by_pause {
        add(Level::Warning, Some(names), pause);
    }
    for ((_, text), names) in &by_warning {
        add(Level::Warning, Some(names), text);
    }
    checks.extend(causes_check(Level::Warning, &waiting, |count, names| {
        format!("{count} waiting for pods: {names}")
    }));
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
        "{} without a status, maybe handled by no controller: {}",
        counted(names.len(), "autoscaler"),
        shorten_names(names)
    );
    let own = match (&cluster.url, &cluster.lease.holder) {
        (Some(url), _) => match &cluster.status {
            Ok(_) => format!("the controller at {url} answers"),
            Err(error) => format!("the controller at {url} can't be read: {error}"),
        },
        (None, Ok(holder)) if holder.is_expired() => holder.describe_expiry(),
        (None, Ok(holder)) => format!("{} holds the lease {}", holder.host_name(), holder.lease),
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

/// The check of autoscalers with the same problem. Its hint is the cause that all have in common,
/// or else the name of the first one and its cause. `text` formats their number and names. `None`
/// if there are none.
fn causes_check(
    level: Level,
    causes: &[NamedCause],
    text: impl FnOnce(String, String) -> String,
) -> Option<Check> {
    let (name, cause) = causes.first()?;
    let names: Vec<_> = causes.iter().map(|(name, _)| name.clone()).collect();
    let text = text(counted(names.len(), "autoscaler"), shorten_names(&names));
    let is_of_all = causes.iter().all(|(_, other)| other == cause);
    let subject = if is_of_all { String::new() } else { format!("{name}: ") };
    let hint = format!("{subject}{cause}; hpa explain {}", quote(name));
    Some(Check::new(level, text).with_hint(hint))
}

/// The cause of a failing autoscaler, as it is for those of other namespaces. Empty if unknown.
fn common_cause(autoscaler: &ListedAutoscaler) -> String {
    let cause = autoscaler.failed_condition().map_or("", |failed| root_cause(&failed.message));
    // The API server's errors about missing rights end with the namespace.
    let in_namespace = format!(" in the namespace \"{}\"", autoscaler.hpa.metadata.namespace);
    cause.replace(&in_namespace, " in its namespace")
}

/// The end of a clause about the failing autoscalers: the cause that most of them have, with their
/// number. Empty if no two have the same. `root_causes` has the number of autoscalers by cause.
fn describe_shared_cause(root_causes: &BTreeMap<String, usize>, failing_count: usize) -> String {
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

/// Sums up the statuses of the autoscalers. Unhandled ones have no status, though they aren't new.
/// Inactive ones are off, paused or in dry run. New ones have no status yet.
fn summarize(
    cluster: &ClusterState,
    (failing_count, unhandled_count): (usize, usize),
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
    // Only the debug API shows whether the statuses are stored.
    let is_confirmed = |one: &ListedAutoscaler| {
        cluster.status.is_ok()
            && (cluster.url.is_none() || cluster.reconciled_at_url.contains(&one.name))
    };
    let are_confirmed = cluster.autoscalers.iter().all(is_confirmed);
    let source = if are_confirmed { "" } else { " according to the stored statuses" };
    let (level, text) = match (failing_count, new_count, inactive_count) {
        _ if count == 0 => (Level::Warning, format!("there are no autoscalers{namespace}")),
        (1.., ..) => {
            (Level::Error, format!("{failing_count} of {all} can't scale{source}{shared_cause}"))
        }
        _ if unhandled_count > 0 => {
            (Level::Error, format!("{unhandled_count} of {all} without a status"))
        }
        (0, 1.., _) => (Level::Skipped, format!("{new_count} of {all} without a status yet")),
        (0, 0, _) if unstored_count > 0 => {
            (Level::Skipped, format!("whether {unstored_count} of {all} can scale is unknown"))
        }
        (0, 0, 0) => (Level::Ok, format!("{all} can scale{source}")),
        (0, 0, inactive) if inactive == count => {
            (Level::Ok, format!("{all} without errors{source}"))
        }
        (0, 0, inactive) => (Level::Ok, format!("{} of {all} can scale{source}", count - inactive)),
    };
    let check = Check::new(level, text);
    // Each problem has its own check.
    check.repeated_if(failing_count + unhandled_count > 0)
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
/// Also `None` if it is unknown whether it runs, and the status is not recent: a status that doesn't
/// change keeps its writer, and so does one that a dry run leaves as it is.
fn controller_of<'a>(cluster: &ClusterState, autoscaler: &'a ListedAutoscaler) -> Option<&'a str> {
    let manager = autoscaler.manager.as_deref()?;
    let leases = cluster.leases();
    let is_active = match leases.is_running(manager) {
        Some(false) => Some(false),
        _ if manager == KUBE_CONTROLLER_MANAGER => cluster.built_in.has_hpa_controller(cluster.now),
        is_running => is_running,
    };
    let is_active =
        is_active.unwrap_or_else(|| leases.is_recent_write(autoscaler.status_stored_at));
    is_active.then_some(manager)
}

/// Whether the autoscaler is so old that a controller should have stored a status.
fn is_overdue(cluster: &ClusterState, autoscaler: &ListedAutoscaler) -> bool {
    let age = autoscaler.created.map(|created| cluster.now.duration_since(created));
    age.is_some_and(|age| age > MAX_AGE_WITHOUT_STATUS)
}
