//! A report as text.

use std::fmt::{Display, Formatter, Result, from_fn};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    Change, MetricReport, PodReport, RateLimit, Report, Stabilization, Trigger,
    phrases::{MAX_NAMES, age, names},
};
use crate::{
    api::{Condition, ConditionType, PolicySelect},
    decide::BOUNDS,
    explain::{
        MetricExplanation, SettingEffect, TargetValue, bytes, counted, list_first,
        minutes_and_seconds, one_line,
    },
    history::Direction,
    pods::PodClass,
    quantity::MilliValue,
    replicas::Rule,
    settings::BoundsChange,
};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "{} {}", self.autoscaler, self.sentence)?;
        self.print_target(f)?;
        if !self.metrics.is_empty() {
            writeln!(f, "\nMetrics")?;
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            print_metric(f, metric, self.winner == Some(index), self.at_by_samples)?;
        }
        if self.limits.is_some() {
            writeln!(f, "\nLimits")?;
        }
        self.print_limits(f)?;
        if !self.changes.is_empty() {
            // Without the history, the changes are computed as if no recommendation held them.
            let may_be_held = !self.history_known && (self.is_doubtful() || self.may_stabilize());
            let unless = if may_be_held { ", unless the history prevents it" } else { "" };
            let has_failed = self.metrics.iter().any(|one| one.explanation.failure.is_some());
            let source = if has_failed { " according to the metrics that were read" } else { "" };
            writeln!(f, "\nWhat would change it{source}{unless}")?;
        }
        for change in &self.changes {
            self.print_change(f, change)?;
        }
        if !self.advice.is_empty() {
            writeln!(f, "\nWhat to do")?;
        }
        for advice in &self.advice {
            writeln!(f, "  {advice}")?;
        }
        self.print_conditions(f)
    }
}

/// Parts of a report in lines, for displays with their own layout. An indented line belongs to the
/// nearest line above it that isn't indented.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReportLines {
    /// The reading and the calculation of each metric, without its name and pods.
    pub metrics: Vec<String>,
    /// Stabilization, policies and bounds.
    pub limits: Vec<String>,
    /// The changes that would lead to other replicas. The end of a pause is listed even if the
    /// replicas stay.
    pub changes: Vec<String>,
}

impl Report {
    /// The values of the metrics, the limits and the changes, as `Display` prints them.
    pub fn lines(&self) -> ReportLines {
        let metrics = self.metrics.iter().map(|metric| from_fn(|f| print_value(f, metric)));
        let changes = self.changes.iter().map(|change| from_fn(|f| self.print_change(f, change)));
        let limits = from_fn(|f| self.print_limits(f)).to_string();
        ReportLines {
            metrics: metrics.map(|text| text.to_string().trim().to_owned()).collect(),
            limits: limits.lines().map(|line| line.replacen("  ", "", 1)).collect(),
            changes: changes.map(|text| text.to_string().trim().to_owned()).collect(),
        }
    }

    /// Whether a listed change scales down, which a stabilization window may hold.
    fn may_stabilize(&self) -> bool {
        let window = self.limits.as_ref().map_or(0, |one| one.stabilization.down_window_seconds);
        let is_down = |change: &Change| {
            self.current_replicas.is_some_and(|current| change.replicas < current)
        };
        window > 0 && self.changes.iter().any(is_down)
    }

    fn print_target(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "\nTarget\n  {}", self.target)?;
        match (self.current_replicas, self.status_replicas, &self.selector) {
            (Some(current), status, Some(selector)) => {
                let desired = counted(current, "replica");
                let exist = match status {
                    Some(1) => "1 exists".to_owned(),
                    Some(count) => format!("{count} exist"),
                    None => "how many exist is unknown".to_owned(),
                };
                writeln!(f, ": {desired} desired, {exist}, selector {selector:?}")
            }
            _ => writeln!(f, ": its scale could not be read"),
        }
    }

    fn print_limits(&self, f: &mut Formatter<'_>) -> Result {
        let (Some(limits), Some(proposed)) = (&self.limits, self.proposed_replicas) else {
            return Ok(());
        };
        let winner = self.winner.and_then(|index| self.metrics.get(index));
        let winner = winner.map_or(String::new(), |winner| format!(", by {}", winner.name));
        writeln!(f, "  largest proposal: {}{winner}", proposal_text(proposed))?;
        self.print_stabilization(f, &limits.stabilization, limits.has_behavior)?;
        print_rate(f, "scale-up", "at most", &limits.scale_up, self.at)?;
        if let Some(rate) = &limits.scale_down {
            print_rate(f, "scale-down", "at least", rate, self.at)?;
        }
        let bounds = self.bounds;
        write!(f, "  bounds: {bounds}")?;
        match self.next_bounds {
            Some(BoundsChange { at, bounds, .. }) => {
                let (at, from_now) = (time(at), from_now(at, self.at));
                writeln!(f, "; {bounds} from {at} ({from_now}), by the schedule")?;
            }
            None if self.effects.iter().any(is_of_bounds) => writeln!(f, ", by the schedule")?,
            None => writeln!(f)?,
        }
        for effect in self.effects.iter().filter(|effect| !is_of_bounds(effect)) {
            writeln!(f, "  {effect}")?;
        }
        match (self.desired_replicas, self.scale_to) {
            (Some(desired), None) if Some(desired) != self.current_replicas => {
                writeln!(f, "  desired replicas: {desired}, not written")
            }
            (Some(desired), _) => writeln!(f, "  desired replicas: {desired}"),
            (None, _) => Ok(()),
        }
    }

    fn print_stabilization(
        &self,
        f: &mut Formatter<'_>,
        stabilization: &Stabilization,
        has_behavior: bool,
    ) -> Result {
        let Stabilization { up_window_seconds, down_window_seconds, stabilized_replicas, .. } =
            stabilization;
        let stabilized = proposal_text(*stabilized_replicas);
        write!(f, "  stabilization: {stabilized}; window down {down_window_seconds}s")?;
        if has_behavior {
            write!(f, ", up {up_window_seconds}s")?;
        }
        match &stabilization.held_by {
            _ if !self.history_known => writeln!(f, "; past recommendations are not known"),
            None => writeln!(f),
            Some(held) => writeln!(
                f,
                "; the recommendation of {} at {} holds it until {} ({})",
                held.replicas,
                time(held.at),
                time(held.until),
                from_now(held.until, self.at)
            ),
        }
    }

    fn print_change(&self, f: &mut Formatter<'_>, change: &Change) -> Result {
        let desired = change.replicas;
        if Some(desired) == self.current_replicas {
            write!(f, "  stays at {desired} ")?;
        } else {
            write!(f, "  scales to {desired} ")?;
        }
        match &change.trigger {
            Trigger::Unpause { at: Some(at) } => {
                writeln!(f, "without the pause, {}", reconcile_at(*at, self.at))
            }
            Trigger::Unpause { at: None } if Some(desired) == self.current_replicas => {
                writeln!(f, "without the pause, if the metrics stay as they are")
            }
            Trigger::Unpause { at: None } => writeln!(f, "without the pause"),
            Trigger::MaxReplicas { to } => writeln!(f, "with a maxReplicas of {to}"),
            Trigger::MinReplicas { to } => writeln!(f, "with a minReplicas of {to}"),
            Trigger::Time { at } => writeln!(f, "{}", reconcile_at(*at, self.at)),
            Trigger::Metric { metric, direction, value, current, utilization } => {
                let Some(metric) = self.metrics.get(*metric) else { return writeln!(f) };
                let (verb, value) = verb_and_threshold(*direction, *value);
                let (value, current) = (quantity(metric, value), quantity(metric, *current));
                let average =
                    if metric.source_type.exists_without_pods() { "" } else { "average " };
                write!(f, "when {average}{} {verb} {value}", metric.name)?;
                if let Some(utilization) = utilization {
                    let base = metric.explanation.utilization_of.as_str();
                    write!(f, " ({utilization}% of {base})")?;
                }
                writeln!(f, "; now {current}")
            }
        }
    }

    fn print_conditions(&self, f: &mut Formatter<'_>) -> Result {
        if self.reported_conditions.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat the controller reported last")?;
        let order = [
            ConditionType::AbleToScale,
            ConditionType::ScalingActive,
            ConditionType::ScalingLimited,
        ];
        let rank = |condition: &&Condition| {
            let position = order.iter().position(|known| *known == condition.condition_type);
            position.unwrap_or(order.len())
        };
        let mut conditions: Vec<_> = self.reported_conditions.iter().collect();
        conditions.sort_by_key(rank);
        for Condition { condition_type, status, reason, message, .. } in conditions {
            let line = format!("{condition_type}={status}, {reason}: {message}");
            writeln!(f, "  {}", one_line(&line))?;
        }
        Ok(())
    }
}

/// Whether a schedule has this effect. The line about the bounds includes it.
fn is_of_bounds(effect: &SettingEffect) -> bool {
    effect.setting == BOUNDS
}

fn print_metric(
    f: &mut Formatter<'_>,
    metric: &MetricReport,
    is_winner: bool,
    now: Timestamp,
) -> Result {
    let mark = if is_winner { "*" } else { " " };
    write!(f, "{mark} {}: ", metric.name)?;
    print_value(f, metric)?;
    print_pods(f, metric)?;
    print_ages(f, metric, now)
}

fn print_value(f: &mut Formatter<'_>, metric: &MetricReport) -> Result {
    let explanation = &metric.explanation;
    if let Some(error) = &explanation.error {
        write!(f, "failed: {error}")?;
        return print_proposal(f, explanation);
    }
    match (explanation.target, explanation.usage, explanation.utilization) {
        (Some(TargetValue::Utilization(target)), Some(usage), Some(percent)) => {
            let usage = quantity(metric, usage);
            let base = explanation.utilization_of.as_str();
            write!(f, "{percent}% of {base} ({usage} per pod), target {target}%")?;
        }
        (Some(TargetValue::Value(target)), Some(usage), _) => {
            write!(f, "{}, target {}", quantity(metric, usage), quantity(metric, target))?;
            if let Some(total) = explanation.total {
                write!(f, " per replica; in total {}", quantity(metric, total))?;
            }
        }
        _ => {}
    }
    print_rule(f, metric)
}

/// Prints the ages of the samples, and the time over which they were measured.
fn print_ages(f: &mut Formatter<'_>, metric: &MetricReport, now: Timestamp) -> Result {
    let Some((newest, oldest)) = metric.sample_times() else { return Ok(()) };
    let (newest, oldest) = (age(newest, now), age(oldest, now));
    write!(f, "    samples: {newest}")?;
    if oldest != newest {
        write!(f, " to {oldest}")?;
    }
    write!(f, " old")?;
    match metric.pod_list.iter().filter_map(|pod| pod.window_seconds).max() {
        Some(seconds) => writeln!(f, ", measured over {seconds}s"),
        None => writeln!(f),
    }
}

fn print_rule(f: &mut Formatter<'_>, metric: &MetricReport) -> Result {
    let explanation = &metric.explanation;
    // At zero replicas, an average by replica has no ratio.
    if let Some(ratio) = explanation.ratio.filter(|ratio| ratio.is_finite()) {
        write!(f, "; ratio {ratio:.3}")?;
    }
    if let Some(ratio) = explanation.rebalanced_ratio {
        write!(f, ", with unready and missing pods {ratio:.3}")?;
    }
    match (explanation.rule, explanation.tolerances, explanation.counted_pods) {
        (Some(Rule::WithinTolerance), Some((up, down)), _) => {
            write!(f, ", within the tolerance ({:.3} to {:.3})", 1.0 - down, 1.0 + up)?;
        }
        (Some(Rule::DirectionReversed), ..) => {
            write!(
                f,
                ": unready and missing pods would reverse the direction, so nothing changes"
            )?;
        }
        (Some(Rule::SurgeIgnored), ..) => {
            write!(
                f,
                ": only surge pods (in excess of spec.replicas) would raise the replicas, so \
                 nothing changes"
            )?;
        }
        (Some(Rule::Proportional), _, Some(pods)) => {
            write!(f, ", times {}", counted(pods, "pod"))?;
        }
        _ => {}
    }
    print_proposal(f, explanation)
}

fn print_proposal(f: &mut Formatter<'_>, explanation: &MetricExplanation) -> Result {
    if let Some(proposed) = explanation.proposed_replicas {
        write!(f, "; proposes {}", proposal_text(proposed))?;
    }
    explanation.effects.iter().try_for_each(|effect| write!(f, "; {effect}"))?;
    writeln!(f)
}

/// Formats a proposal. A negative value of a metric proposes negative replicas, which count as 0.
fn proposal_text(replicas: i32) -> String {
    if replicas < 0 { format!("{replicas} (counts as 0)") } else { replicas.to_string() }
}

fn print_pods(f: &mut Formatter<'_>, metric: &MetricReport) -> Result {
    for class in PodClass::ALL {
        let pods: Vec<_> = metric.pod_list.iter().filter(|pod| pod.class == class).collect();
        if pods.is_empty() {
            continue;
        }
        // Of the pods that count, only those that are not ready need a reason.
        let (explained, others): (Vec<&PodReport>, Vec<&PodReport>) =
            pods.iter().copied().partition(|pod| class != PodClass::Ready || pod.is_unready);
        let mut by_reason = Vec::<(&str, Vec<&str>)>::new();
        for pod in explained {
            match by_reason.iter_mut().find(|(why, _)| *why == pod.why) {
                Some((_, pods)) => pods.push(pod.name.as_str()),
                None => by_reason.push((pod.why, vec![pod.name.as_str()])),
            }
        }
        let reasons = by_reason.iter().map(|(why, pods)| match pods.as_slice() {
            [pod] => format!("{pod} {why}"),
            _ => format!("{}: each {why}", names(pods)),
        });
        let reasons: Vec<_> = reasons.collect();
        let reasons = (!reasons.is_empty()).then(|| list_first(&reasons, MAX_NAMES, "; "));
        let others = (!others.is_empty()).then(|| names(others.iter().map(|pod| &pod.name)));
        let texts: Vec<_> = others.into_iter().chain(reasons).collect();
        writeln!(f, "    {} ({}): {}", class.label(), pods.len(), texts.join("; "))?;
    }
    if let Some(samples) = &metric.unselected_samples {
        let pods = names(&samples.pods);
        let label = if samples.are_counted {
            "not selected, but counted"
        } else {
            "of other owners, not counted"
        };
        writeln!(f, "    {label} ({}): {pods}", samples.pods.len())?;
    }
    Ok(())
}

fn print_rate(
    f: &mut Formatter<'_>,
    direction: &str,
    bound: &str,
    rate: &RateLimit,
    now: Timestamp,
) -> Result {
    write!(f, "  {direction} now: {bound} {}", rate.limit.max(0))?;
    let is_disabled = rate.select == PolicySelect::Disabled;
    if rate.policies.len() > 1 || is_disabled {
        write!(f, " (selectPolicy {})", rate.select)?;
    }
    writeln!(f)?;
    if is_disabled {
        // The policies have no effect.
        return Ok(());
    }
    for policy in &rate.policies {
        let unit = policy.policy_type.as_ref().map_or("?", |unit| unit.as_str());
        write!(
            f,
            "    {} {unit} in {}s, from {}: {bound} {}",
            policy.value,
            policy.period_seconds,
            policy.replicas_at_start,
            policy.allowed_replicas.max(0)
        )?;
        match policy.next_change_at {
            Some(at) => writeln!(f, "; next change at {} ({})", time(at), from_now(at, now))?,
            None => writeln!(f)?,
        }
    }
    Ok(())
}

/// The verb and the value of a threshold, for example "rises above 300", which is easier to read
/// than "rises to 300001m".
fn verb_and_threshold(direction: Direction, value: MilliValue) -> (&'static str, MilliValue) {
    let milli = value.as_milli();
    match direction {
        Direction::Up if (milli - 1) % 1000 == 0 => {
            ("rises above", MilliValue::from_milli(milli - 1))
        }
        Direction::Up => ("rises to", value),
        Direction::Down if (milli + 1) % 1000 == 0 => {
            ("falls below", MilliValue::from_milli(milli + 1))
        }
        Direction::Down => ("falls to", value),
    }
}

/// Formats a value of a metric: memory as in the sentence, other resources as kubectl prints them,
/// and other metrics as exact decimals.
fn quantity(metric: &MetricReport, value: MilliValue) -> String {
    if metric.is_memory {
        bytes(value)
    } else if metric.source_type.is_resource() {
        value.to_string()
    } else {
        value.to_decimal()
    }
}

fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// The end of a line about a change at this time. The controller only decides in reconciles.
fn reconcile_at(at: Timestamp, now: Timestamp) -> String {
    format!(
        "at {} ({}) or in the next reconcile after it, if the metrics stay as they are",
        time(at),
        from_now(at, now)
    )
}

fn from_now(at: Timestamp, now: Timestamp) -> String {
    format!("in {}", minutes_and_seconds(at.duration_since(now).as_secs_f64()))
}
