//! Checks of the autoscalers, by the conditions in their status.

use std::collections::BTreeMap;

use hpa_calc::{
    Settings,
    explain::counted,
    report::{ShortReport, State, Warning},
    settings::SettingPolicy,
};
use jiff::SignedDuration;

use super::{
    check::{Check, Level, named},
    cluster::{Observed, ObservedAutoscaler},
};

/// An autoscaler without a status is an error if it is older than this.
const MAX_AGE_WITHOUT_STATUS: SignedDuration = SignedDuration::from_mins(2);

/// The failing autoscalers by reason, with the cause of the first one.
type ByReason = BTreeMap<String, (Vec<String>, String)>;

pub(super) fn check(observed: &Observed) -> Vec<Check> {
    let all = &observed.autoscalers;
    let settings = observed
        .status
        .as_ref()
        .map_or_else(|_| Settings::default(), |status| status.settings.into());
    let mut failing = ByReason::new();
    let mut by_state = BTreeMap::<State, Vec<String>>::new();
    let mut by_warning = BTreeMap::<Warning, Vec<String>>::new();
    let mut by_pause = BTreeMap::<String, Vec<String>>::new();
    let mut waiting = Vec::new();
    // Their targets are scaled by several controllers.
    let mut contested = Vec::new();
    let (mut unhandled, mut unknown) = (Vec::new(), 0);
    for autoscaler in all {
        let report = autoscaler.short_report(&settings, &SettingPolicy::default());
        let is_problem = report.is_problem(observed.now);
        let ShortReport { state, sentence, warnings, .. } = report;
        for warning in warnings {
            if warning == Warning::SharedTarget && has_other_controller(observed, autoscaler) {
                contested.push(autoscaler.name.clone());
            } else {
                by_warning.entry(warning).or_default().push(autoscaler.name.clone());
            }
        }
        match state {
            State::Failing => {
                let reason = autoscaler.failed_reason().unwrap_or_default();
                let entry = failing.entry(reason).or_insert((Vec::new(), sentence));
                entry.0.push(autoscaler.name.clone());
            }
            State::New if is_old(observed, autoscaler) => unhandled.push(autoscaler.name.clone()),
            State::New => unknown += 1,
            State::WaitingForPods if is_problem => waiting.push((&autoscaler.name, sentence)),
            State::Paused => {
                let pause = sentence.split(';').next().unwrap_or_default();
                by_pause.entry(pause.to_owned()).or_default().push(autoscaler.name.clone());
            }
            state => by_state.entry(state).or_default().push(autoscaler.name.clone()),
        }
    }
    let inactive =
        [State::Off, State::DryRun].map(|state| by_state.get(&state).map_or(0, Vec::len));
    let inactive = inactive.iter().chain(&[by_pause.values().map(Vec::len).sum()]).sum::<usize>();
    let count = failing.values().map(|(names, _)| names.len()).sum::<usize>() + unhandled.len();
    let mut checks = vec![total(all.len(), count, inactive, unknown)];
    for (reason, (names, cause)) in &failing {
        let text = format!("{reason}: {} ({})", counted(names.len(), "autoscaler"), named(names));
        let command = names.first().map(|name| format!("; hpa explain {name}"));
        checks.push(
            Check::new(Level::Error, text).hint(format!("{cause}{}", command.unwrap_or_default())),
        );
    }
    let mut add = |level, names: Option<&Vec<String>>, what: &str| {
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            let text = format!("{} {what}: {}", counted(names.len(), "autoscaler"), named(names));
            checks.push(Check::new(level, text));
        }
    };
    add(Level::Error, Some(&unhandled), "without a status: no controller handles them");
    add(
        Level::Error,
        Some(&contested),
        "of a target that another controller scales for another autoscaler, so the replicas may \
         change back and forth",
    );
    for (state, what) in [
        (State::Fallback, "at the replicas of a fallback, because metrics fail (FallbackActive)"),
        (State::AtMaximum, "held at maxReplicas (TooManyReplicas)"),
        (State::Off, "off, because the target has 0 replicas (ScalingDisabled)"),
        (State::DryRun, "in dry run by annotation, so nothing is written"),
        (State::MetricMissing, "without the values of some metrics, so they only scale up"),
    ] {
        add(Level::Warning, by_state.get(&state), what);
    }
    for (pause, names) in &by_pause {
        add(Level::Warning, Some(names), pause);
    }
    for (warning, what) in [
        (Warning::InvalidSettings, "with settings that are not used as written (InvalidSettings)"),
        (Warning::PauseIgnored, "with a pause that kube-controller-manager ignores"),
        (Warning::DryRunIgnored, "with a dry run that kube-controller-manager ignores"),
        (Warning::SettingsIgnored, "with settings that kube-controller-manager ignores"),
        (Warning::SharedTarget, "of a target that another autoscaler scales too"),
    ] {
        add(Level::Warning, by_warning.get(&warning), what);
    }
    if let Some((name, cause)) = waiting.first() {
        let names: Vec<_> = waiting.iter().map(|(name, _)| (*name).clone()).collect();
        let text =
            format!("{} waiting for pods: {}", counted(names.len(), "autoscaler"), named(&names));
        checks.push(Check::new(Level::Warning, text).hint(format!("{cause}; hpa explain {name}")));
    }
    checks
}

/// Sums up the statuses. `inactive` autoscalers are off, paused or in dry run.
fn total(count: usize, failing: usize, inactive: usize, unknown: usize) -> Check {
    let all = counted(count, "autoscaler");
    let (level, text) = match (failing, unknown, inactive) {
        _ if count == 0 => (Level::Warning, "there are no autoscalers".to_owned()),
        (1.., ..) => (Level::Error, format!("{failing} of {all} can't scale")),
        (0, 1.., _) => (Level::Skipped, format!("{unknown} of {all} without a status yet")),
        (0, 0, 0) => (Level::Ok, format!("{all} can scale")),
        (0, 0, inactive) if inactive == count => (Level::Ok, format!("{all} without errors")),
        (0, 0, inactive) => (Level::Ok, format!("{} of {all} can scale", count - inactive)),
    };
    let check = Check::new(level, text);
    // Each problem has its own check.
    if failing > 0 { check.summary() } else { check }
}

/// Whether a different controller stored the status of another autoscaler of the target.
fn has_other_controller(observed: &Observed, autoscaler: &ObservedAutoscaler) -> bool {
    let others = observed.autoscalers.iter();
    let mut others = others.filter(|other| autoscaler.of_same_target.contains(&other.name));
    autoscaler.manager.is_some()
        && others.any(|other| other.manager.is_some() && other.manager != autoscaler.manager)
}

fn is_old(observed: &Observed, autoscaler: &ObservedAutoscaler) -> bool {
    let age = autoscaler.created.map(|created| observed.now.duration_since(created));
    age.is_some_and(|age| age > MAX_AGE_WITHOUT_STATUS)
}
