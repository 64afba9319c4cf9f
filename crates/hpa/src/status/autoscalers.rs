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
    check::{Check, Level, Weight, lowercase_first},
    cluster::ClusterState,
    lease::describe_lease_error,
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, UnstoredStatus},
    listed_autoscalers::ListedAutoscaler,
    terminal::shorten_names,
};

/// An autoscaler without a status is an error if it is older than this.
const MAX_AGE_WITHOUT_STATUS: SignedDuration = SignedDuration::from_mins(2);

/// The maximum number of characters of a cause in the headline.
const MAX_CAUSE_CHARS: usize = 300;

/// The maximum number of characters of a cause in a hint. That of a tenant may be long.
const MAX_HINT_CAUSE_CHARS: usize = 2000;

/// The reason of autoscalers on which the controller could not decide, if it couldn't store that.
const NO_DECISION: &str = "no decision, by the debug API";

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

/// The result of [`controller_of`] by the names of autoscalers.
type Controllers<'a> = BTreeMap<&'a str, &'a str>;

/// The autoscalers with each problem, and the numbers of those that need no check of their own.
#[derive(Default)]
struct Problems {
    /// By the reason of the failed condition, or [`NO_DECISION`].
    failing: BTreeMap<String, Vec<NamedCause>>,
    /// The number of failing autoscalers by their root cause.
    root_causes: BTreeMap<String, usize>,
    by_state: BTreeMap<State, Vec<NamedCause>>,
    by_warning: BTreeMap<(Warning, String), Vec<String>>,
    by_pause: BTreeMap<String, Vec<String>>,
    /// Those whose last status is not stored, unless the controller could not decide either.
    unstored: Vec<NamedCause>,
    /// Those that have waited for pods for too long.
    waiting: Vec<NamedCause>,
    /// Those whose targets are scaled by several controllers.
    contested: Vec<String>,
    /// Those that are overdue for their first status.
    unhandled: Vec<String>,
    /// The number of those without a status on which no controller acts, by the leases.
    idle_count: usize,
    /// The number of other autoscalers without a status.
    new_count: usize,
    paused_count: usize,
}

/// `built_in` is the check of kube-controller-manager.
pub(super) fn check(cluster: &ClusterState, built_in: &Check) -> Vec<Check> {
    let problems = Problems::find(cluster);
    let mut checks = vec![problems.summarize(cluster)];
    let unstored = causes_check(Level::Error, &problems.unstored, |count, names| {
        format!("{count} without a check, because the status is not stored: {names}")
    });
    // The controller's check has the error.
    checks.extend(unstored.map(|check| check.with_weight(Weight::Repetition)));
    let limits = cluster.scope.describe_limits();
    checks.extend(limits.iter().map(|text| Check::new(Level::Skipped, lowercase_first(text))));
    checks.extend(cluster.missing_api.as_ref().map(|text| Check::new(Level::Warning, text)));
    checks.extend(problems.failing.iter().filter_map(|(reason, causes)| {
        causes_check(Level::Error, causes, |count, names| format!("{reason}: {count} ({names})"))
    }));
    checks.extend(unhandled_check(cluster, &built_in.text, &problems.unhandled));
    checks.extend(conflict_check(&cluster.autoscalers));
    let contested =
        "sharing a target with an autoscaler of another controller, so the replicas may flap";
    checks.extend(names_check(Level::Error, &problems.contested, contested));
    let warnings = |precede_state: bool| {
        let by_warning = problems.by_warning.iter();
        let warned =
            by_warning.filter(move |((warning, _), _)| warning.precedes_state() == precede_state);
        warned.filter_map(|((_, text), names)| names_check(Level::Warning, names, text))
    };
    checks.extend(warnings(true));
    checks.extend(WARNING_STATES.iter().filter_map(|(state, text)| {
        causes_check(Level::Warning, problems.by_state.get(state)?, |count, names| {
            format!("{count} {text}: {names}")
        })
    }));
    let paused = problems.by_pause.iter();
    checks.extend(paused.filter_map(|(pause, names)| names_check(Level::Warning, names, pause)));
    checks.extend(warnings(false));
    checks.extend(causes_check(Level::Warning, &problems.waiting, |count, names| {
        format!("{count} waiting for pods: {names}")
    }));
    checks
}

impl Problems {
    fn find(cluster: &ClusterState) -> Self {
        let status = cluster.status.as_ref();
        let settings = status.map_or_else(|_| Settings::default(), |status| status.settings.into());
        let autoscalers = cluster.autoscalers.iter();
        let controllers: Controllers<'_> = autoscalers
            .filter_map(|one| Some((one.name.as_str(), controller_of(cluster, one)?)))
            .collect();
        let mut problems = Self::default();
        for autoscaler in &cluster.autoscalers {
            let report = autoscaler.short_report(&settings, &SettingPolicy::default());
            problems.add(cluster, &controllers, autoscaler, report);
        }
        problems
    }

    fn add(
        &mut self,
        cluster: &ClusterState,
        controllers: &Controllers<'_>,
        autoscaler: &ListedAutoscaler,
        report: ShortReport,
    ) {
        let name = &autoscaler.name;
        let is_problem = report.is_problem(cluster.now);
        // The cause is without the warnings, because each warning has its own check.
        let ShortReport { state, cause, pause, warnings, has_missing_metric, .. } = report;
        if has_missing_metric && state != State::MetricMissing {
            let missing = self.by_state.entry(State::MetricMissing).or_default();
            missing.push((name.clone(), cause.clone()));
        }
        if let Some(pause) = pause {
            self.by_pause.entry(pause).or_default().push(name.clone());
        }
        // The report lacks this warning if its sentence already names the other autoscalers. It has
        // the warning for a conflict of bounds, which has a check of its own.
        let is_shared =
            !autoscaler.other_autoscalers.is_empty() && autoscaler.bounds_conflict.is_none();
        let shared = is_shared.then_some(Warning::SharedTarget);
        let other_warnings = warnings.into_iter().filter(|one| *one != Warning::SharedTarget);
        for warning in other_warnings.chain(shared) {
            if warning == Warning::SharedTarget && has_other_controller(controllers, autoscaler) {
                self.contested.push(name.clone());
            } else {
                let text = describe_warning(warning, autoscaler.acting);
                self.by_warning.entry((warning, text)).or_default().push(name.clone());
            }
        }
        if let Some(UnstoredStatus { error, failure }) = &autoscaler.unstored {
            match failure {
                Some(failure) => self.add_failing(NO_DECISION, autoscaler, failure.clone()),
                None => self.unstored.push((name.clone(), error.clone())),
            }
            return;
        }
        match state {
            State::Failing if fails_by_conflict(autoscaler) => {}
            State::Failing => {
                let failed = autoscaler.hpa.status.failed_condition();
                let reason = failed.map(|failed| failed.reason.to_string()).unwrap_or_default();
                self.add_failing(&reason, autoscaler, cause);
            }
            // The controller's checks report idle autoscalers, with the reason.
            State::New => match cluster.idle_reason(autoscaler) {
                Some(idle) if idle.is_certain => self.idle_count += 1,
                None if is_overdue(cluster, autoscaler) => self.unhandled.push(name.clone()),
                _ => self.new_count += 1,
            },
            State::WaitingForPods if is_problem => self.waiting.push((name.clone(), cause)),
            State::Paused => self.paused_count += 1,
            state => self.by_state.entry(state).or_default().push((name.clone(), cause)),
        }
    }

    fn add_failing(&mut self, reason: &str, autoscaler: &ListedAutoscaler, cause: String) {
        *self.root_causes.entry(common_cause(autoscaler)).or_default() += 1;
        let failing = self.failing.entry(reason.to_owned()).or_default();
        failing.push((autoscaler.name.clone(), cause));
    }

    /// Sums up the statuses of the autoscalers. Unhandled ones have no status, though they aren't
    /// new. Inactive ones are off, paused or in dry run. New ones have no status yet.
    fn summarize(&self, cluster: &ClusterState) -> Check {
        let count = cluster.autoscalers.len();
        let failing_count: usize = self.failing.values().map(Vec::len).sum();
        let in_state = |state| self.by_state.get(&state).map_or(0, Vec::len);
        let inactive_count = in_state(State::Off) + in_state(State::DryRun) + self.paused_count;
        let unstored_count = self.unstored.len();
        let unhandled_count = self.unhandled.len() + self.idle_count;
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
        let (level, text) = if count == 0 {
            (Level::Warning, format!("there are no autoscalers{namespace}"))
        } else if failing_count > 0 {
            let shared_cause = describe_shared_cause(&self.root_causes, failing_count);
            let text = format!("{failing_count} of {all} can't scale{source}{shared_cause}");
            (Level::Error, text)
        } else if unhandled_count > 0 {
            (Level::Error, format!("{unhandled_count} of {all} without a status"))
        } else if self.new_count > 0 {
            (Level::Skipped, format!("{} of {all} without a status yet", self.new_count))
        } else if unstored_count > 0 {
            (Level::Skipped, format!("whether {unstored_count} of {all} can scale is unknown"))
        } else if inactive_count == 0 {
            (Level::Ok, format!("{all} can scale{source}"))
        } else if inactive_count == count {
            (Level::Ok, format!("{all} without errors{source}"))
        } else {
            (Level::Ok, format!("{} of {all} can scale{source}", count - inactive_count))
        };
        let check = Check::new(level, text);
        // Each problem has its own check.
        check.repeated_if(failing_count + unhandled_count > 0)
    }
}

/// The check of autoscalers with the same problem. `None` if there are none.
fn names_check(level: Level, names: &[String], problem: &str) -> Option<Check> {
    (!names.is_empty()).then(|| {
        let count = counted(names.len(), "autoscaler");
        Check::new(level, format!("{count} {problem}: {}", shorten_names(names)))
    })
}

/// The end of a clause about autoscalers with a warning.
fn describe_warning(warning: Warning, acting: ActingController) -> String {
    let (settings, obey) = match warning {
        Warning::SharedTarget => return "with the target of another autoscaler".to_owned(),
        Warning::PauseIgnored => ("a pause", "obey"),
        Warning::DryRunIgnored => ("a dry run", "obey"),
        Warning::SettingsIgnored => ("settings", "apply"),
        Warning::ExtraPods => {
            return "with a selector that matches pods of other owners, which count too \
                    (SelectorMatchesExtraPods)"
                .to_owned();
        }
        Warning::ReplicasOverwritten => {
            return "whose replicas another client changes after each scaling \
                    (ReplicasOverwritten)"
                .to_owned();
        }
        _ => return "with settings that are not used as written (InvalidSettings)".to_owned(),
    };
    let (is_writer, is_unknown) = match acting {
        // The warning is from a status that kube-controller-manager stored.
        ActingController::HpaRs => (true, false),
        ActingController::KubeControllerManager { is_status_of_kube_controller_manager } => {
            (is_status_of_kube_controller_manager, false)
        }
        ActingController::Unknown { is_status_of_kube_controller_manager } => {
            (is_status_of_kube_controller_manager, true)
        }
    };
    let built_in = describe_built_in(is_writer, is_unknown);
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
    let hpa_rs = match (&cluster.url, &cluster.lease.holder) {
        (Some(url), _) => match &cluster.status {
            Ok(_) => format!("the controller at {url} answers"),
            Err(error) => format!("the controller at {url} can't be read: {error}"),
        },
        (None, Ok(holder)) if holder.is_expired() => holder.describe_expiry(),
        (None, Ok(holder)) => format!("{} holds the lease {}", holder.host_name(), holder.lease),
        (None, Err(error)) => describe_lease_error(error),
    };
    let hint = format!(
        "their status has no conditions {MAX_AGE_WITHOUT_STATUS:#} after their creation; {hpa_rs}; \
         {built_in}"
    );
    Some(Check::new(Level::Error, text).with_hint(hint))
}

/// Whether the autoscaler can't scale at times because of another one whose bounds exclude its own:
/// the condition comes and goes with the replicas.
fn fails_by_conflict(autoscaler: &ListedAutoscaler) -> bool {
    let failed = autoscaler.hpa.status.failed_condition();
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

/// Like [`names_check`], with a hint: the cause that all have in common, or else the name of the
/// first one and its cause. `text` formats their number and names. `None` if there are none.
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
    let cause = truncate(cause.clone(), MAX_HINT_CAUSE_CHARS);
    let hint = format!("{subject}{cause}; hpa explain {}", quote(name));
    Some(Check::new(level, text).with_hint(hint))
}

/// The cause of a failing autoscaler without the name of its namespace, to compare it with those of
/// other namespaces. Empty if unknown.
fn common_cause(autoscaler: &ListedAutoscaler) -> String {
    let failed = autoscaler.hpa.status.failed_condition();
    let cause = match &autoscaler.unstored {
        Some(unstored) => unstored.failure.as_deref().unwrap_or_default(),
        None => failed.map_or("", |failed| root_cause(&failed.message)),
    };
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

/// Whether a different controller stored the status of another autoscaler of the target.
fn has_other_controller(controllers: &Controllers<'_>, autoscaler: &ListedAutoscaler) -> bool {
    let Some(controller) = controllers.get(autoscaler.name.as_str()) else { return false };
    let others = autoscaler.other_autoscalers.iter();
    let mut others = others.filter_map(|name| controllers.get(name.as_str()));
    others.any(|other| other != controller)
}

/// The controller that stored the status last. `None` if it has lost its lease or is switched off.
/// If it is unknown whether it runs, `None` unless the status is recent: an old status keeps its
/// writer, even if the next controller decides the same or is in dry run.
fn controller_of<'a>(cluster: &ClusterState, autoscaler: &'a ListedAutoscaler) -> Option<&'a str> {
    let manager = autoscaler.controller.name.as_deref()?;
    let leases = cluster.leases();
    let is_active = match leases.is_running(manager) {
        Some(false) => Some(false),
        _ if manager == KUBE_CONTROLLER_MANAGER => {
            cluster.built_in.is_hpa_controller_on(cluster.now)
        }
        is_running => is_running,
    };
    let is_active = is_active.unwrap_or_else(|| leases.is_recent_write(autoscaler.controller.at));
    is_active.then_some(manager)
}

/// Whether the autoscaler is so old that a controller should have stored a status.
pub(super) fn is_overdue(cluster: &ClusterState, autoscaler: &ListedAutoscaler) -> bool {
    let age = autoscaler.created.map(|created| cluster.now.duration_since(created));
    age.is_some_and(|age| age > MAX_AGE_WITHOUT_STATUS)
}
