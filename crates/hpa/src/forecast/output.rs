//! Prints an analysis as text, JSON and an HTML page.

use std::fmt::Write as _;

use hpa_calc::{crd::SHORT_NAME, settings::DOMAIN, shell::quote};
use hpa_forecast::{
    Comparison, ForecastReason, GateDecision, GateSettings, ModelChoice, Outcome, Season, Trace,
};
use hpa_simulate::{
    report::{PagePart, format_duration, page as html_page, percent},
    workload::seconds::{DAY, MINUTE},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{
    analysis::{Analysis, Subject, load_range},
    chart,
};
use crate::terminal::{self, escape_line};

/// The smallest missing share of a history that is stated if forecasts are possible.
const MIN_STATED_SHARE: f64 = 0.01;

pub(super) fn text(analysis: &Analysis) -> String {
    let mut text = format!("{}\n{}\n", answer(analysis), heading(analysis));
    for line in details(analysis) {
        let _ = writeln!(text, "{line}");
    }
    for (title, rows) in tables(analysis) {
        let _ = write!(text, "\n{title}\n\n{}", terminal::aligned(&rows, "   "));
    }
    if let Some(setting) = recommended_setting(analysis) {
        let _ = writeln!(text, "\nRecommended setting: {setting}");
        for line in setting_command(&analysis.subject, &analysis.settings) {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !analysis.subject.assumptions.is_empty() {
        text += "\nAssumptions:\n";
        text.extend(analysis.subject.assumptions.iter().map(|one| format!("- {one}\n")));
    }
    text
}

pub(super) fn page(analysis: &Analysis) -> String {
    let mut parts = vec![PagePart::Text(heading(analysis)), PagePart::Heading(answer(analysis))];
    parts.extend(details(analysis).into_iter().map(PagePart::Text));
    if let Some(setting) = recommended_setting(analysis) {
        parts.push(PagePart::Text(format!("Recommended setting: {setting}")));
        let command = setting_command(&analysis.subject, &analysis.settings).join("\n");
        parts.extend((!command.is_empty()).then_some(PagePart::Text(command)));
    }
    for (title, rows) in tables(analysis) {
        parts.extend([PagePart::Heading(title), PagePart::Table(rows)]);
    }
    let best_title = if analysis.decision.reason.is_active() {
        "The six hours in which forecasts save the most overload"
    } else {
        "Six hours with and without forecasts"
    };
    let charts = [
        (best_title, chart::draw_best_hours(analysis)),
        ("The last week", chart::draw_last_week(analysis)),
    ];
    for (title, svg) in charts {
        let image = svg.map(PagePart::Image);
        parts.extend(image.into_iter().flat_map(|one| [PagePart::Heading(title.to_owned()), one]));
    }
    let assumptions = analysis.subject.assumptions.iter();
    parts.extend(assumptions.map(|one| PagePart::Text(format!("Assumption: {one}"))));
    html_page(&format!("Forecasts for {}", analysis.subject.name), &parts)
}

fn heading(analysis: &Analysis) -> String {
    let subject = &analysis.subject;
    let metric = subject.metric.as_ref().map(|metric| format!(", {}", escape_line(metric)));
    let metric = metric.unwrap_or_default();
    let (from, to) = load_range(&subject.trace);
    let zone = analysis.settings.zone.iana_name().unwrap_or("UTC");
    let (from, to) = (format_minute(analysis, from), format_minute(analysis, to));
    format!("Forecasts for {}{metric}, from {from} to {to} ({zone}).", subject.name)
}

fn format_minute(analysis: &Analysis, time: Timestamp) -> String {
    time.to_zoned(analysis.settings.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

fn is_constant(trace: &Trace) -> bool {
    let mut loads = (0..trace.len()).filter_map(|minute| trace.load(minute));
    let first = loads.next();
    loads.all(|load| Some(load) == first)
}

/// A sentence that says whether forecasts would have helped.
fn answer(analysis: &Analysis) -> String {
    let GateDecision { reason, comparison, .. } = &analysis.decision;
    match (reason, comparison) {
        (ForecastReason::Forecasting, Some(comparison)) => {
            format!("Forecasts would have helped: {}.", effect(analysis, comparison))
        }
        (ForecastReason::NoSeason, _) if is_constant(&analysis.subject.trace) => {
            "No forecasts needed: the load never changes.".to_owned()
        }
        (ForecastReason::NoSeason, _) => {
            "Not forecastable: in the past week, neither the time of day nor the day of the week \
             improved forecasts."
                .to_owned()
        }
        (ForecastReason::NoBenefit, Some(comparison))
            if comparison.reactive.overload_minutes < 1.0 =>
        {
            let capacity = capacity_clause(analysis);
            format!(
                "No forecasts needed: without them, simulated pods{capacity} were never overloaded."
            )
        }
        (ForecastReason::NoBenefit, Some(comparison)) if comparison.has_little_overload() => {
            format!(
                "At equal pod-hours, there is too little overload to judge forecasts (at least {} \
                 are needed): {}.",
                format_duration(comparison.min_overload_minutes() * MINUTE),
                effect(analysis, comparison)
            )
        }
        (ForecastReason::NoBenefit, Some(comparison)) => {
            format!("Forecasts would not have helped enough: {}.", effect(analysis, comparison))
        }
        _ => describe_short_history(&analysis.subject.trace),
    }
}

fn describe_short_history(trace: &Trace) -> String {
    let (known, days) = trace.history().coverage_and_days();
    // The history rounds to its buckets, which is too coarse for a short recording.
    let seconds = if days < 1.0 { trace.len() as f64 * MINUTE } else { (days * DAY).round() };
    format!(
        "Not enough history: it covers {}, and {} of it is missing. Ten days are needed, of which \
         at most a fifth may be missing.",
        format_duration(seconds),
        percent(1.0 - known)
    )
}

/// A clause about the capacity of pods if it is assumed.
fn capacity_clause(analysis: &Analysis) -> &'static str {
    if analysis.settings.capacity.is_none() { " with an assumed capacity" } else { "" }
}

/// Compares the overload with forecasts to that without them, but with the lowered target of the
/// table. If forecasts reduce only the unserved load, compares that instead.
fn effect(analysis: &Analysis, comparison: &Comparison) -> String {
    let Comparison { forecast, with_lowered_target: lowered, .. } = comparison;
    let is_assumed = analysis.settings.capacity.is_none();
    let has_benefit = analysis.decision.reason.is_active();
    let effect = if has_benefit && comparison.helps_only_unserved_load() {
        let assumed = if is_assumed { " assumed" } else { "" };
        format!(
            "{} of the load was beyond the{assumed} capacity of simulated pods with forecasts, \
             and {}",
            percent(forecast.unserved),
            percent(lowered.unserved)
        )
    } else {
        let capacity = capacity_clause(analysis);
        format!(
            "simulated pods{capacity} were overloaded for {} with forecasts, and for {}",
            overload(forecast),
            overload(lowered)
        )
    };
    format!(
        "{effect} without forecasts but with {}, which costs {}",
        lowered_target_label(comparison),
        cost(lowered.pod_hours, forecast.pod_hours)
    )
}

/// Describes the difference of `pod_hours` from `base`. They count as equal if the table prints the
/// same number for both. The difference can be large: if the load has plateaus at multiples of the
/// target, a slightly lower target costs many more pod-hours.
fn cost(pod_hours: f64, base: f64) -> String {
    let fewer = 1.0 - pod_hours / base;
    if format!("{pod_hours:.1}") == format!("{base:.1}") {
        "the same pod-hours".to_owned()
    } else if fewer < 0.0 {
        format!("{} more pod-hours than forecasts", percent(-fewer))
    } else {
        format!("{} fewer pod-hours than forecasts", percent(fewer))
    }
}

fn overload(outcome: &Outcome) -> String {
    format_duration(outcome.overload_minutes * MINUTE)
}

/// Formats a number with four significant digits.
pub(super) fn format_number(value: f64) -> String {
    format!("{value:.3e}").parse::<f64>().unwrap_or(value).to_string()
}

/// Sentences about the horizon and the season of the forecasts, and about gaps in the history.
fn details(analysis: &Analysis) -> Vec<String> {
    let workload = &analysis.subject.workload;
    let mut lines = vec![format!(
        "Forecasts are for {} ahead (the horizon): pods are ready after {}, the metric is {} old, \
         and decisions are up to a minute apart.",
        format_duration(analysis.settings.horizon.as_secs_f64()),
        format_duration(workload.startup.as_secs_f64()),
        format_duration(workload.delay.as_secs_f64())
    )];
    if let Some(ModelChoice { model, skill }) = analysis.decision.choice {
        let season = match model.season {
            Season::Daily => "all days",
            Season::Workweek => "working days or weekends",
            Season::Weekly => "the same day of the week",
        };
        let skill = if skill > 0.0 {
            format!("Errors are {} below those without a season", percent(skill))
        } else {
            "Errors are not below those without a season".to_owned()
        };
        lines.push(format!("Learned from {season} of the two weeks before. {skill}."));
    }
    let missing = missing_share(&analysis.subject.trace);
    if analysis.decision.comparison.is_some() && missing >= MIN_STATED_SHARE {
        lines.push(format!("{} of the history is missing.", percent(missing)));
    }
    lines
}

/// The share of the history that has no samples.
fn missing_share(trace: &Trace) -> f64 {
    let (known, _) = trace.history().coverage_and_days();
    1.0 - known
}

/// The lines of the command that sets quantile and horizon on the autoscaler, in the mode
/// `observe`. Empty for a load from a file.
fn setting_command(
    Subject { name, metric, is_custom, .. }: &Subject,
    settings: &GateSettings,
) -> Vec<String> {
    // A file has no autoscaler.
    let Some((namespace, name)) = name.split_once('/').filter(|_| metric.is_some()) else {
        return Vec::new();
    };
    let (namespace, name) = (quote(namespace), quote(name));
    let (quantile, horizon) = (settings.quantile, settings.horizon.as_secs());
    if *is_custom {
        // Fields take precedence over annotations.
        let fields = json!({
            "forecast": "Observe", "forecastQuantile": quantile.to_string(),
            "forecastHorizonSeconds": horizon,
        });
        return vec![
            format!("kubectl patch {SHORT_NAME} -n {namespace} {name} --type=merge \\"),
            format!("  -p '{}'", json!({ "spec": fields })),
        ];
    }
    vec![
        format!("kubectl annotate hpa -n {namespace} {name} --overwrite \\"),
        format!("  {DOMAIN}/forecast=observe {DOMAIN}/forecast-quantile={quantile} \\"),
        format!("  {DOMAIN}/forecast-horizon={horizon}s"),
    ]
}

fn recommended_setting(analysis: &Analysis) -> Option<String> {
    analysis.decision.reason.is_active().then(|| {
        let horizon = analysis.settings.horizon.as_secs();
        format!("horizon {horizon}s, quantile {}", analysis.settings.quantile)
    })
}

/// The tables with their titles. Empty for a load that can't be forecast, because its numbers would
/// be due to chance.
fn tables(analysis: &Analysis) -> Vec<(String, Vec<Vec<String>>)> {
    let GateDecision { reason, comparison, .. } = &analysis.decision;
    let Some(comparison) = comparison.filter(|_| *reason != ForecastReason::NoSeason) else {
        return Vec::new();
    };
    let mut tables = Vec::new();
    if let Some(((from, to), capacity)) = analysis.measured_range().zip(analysis.pod_capacity()) {
        let title = format!(
            "{} to {}, simulated. A ready pod is overloaded above a load of {}, {} of its target",
            format_minute(analysis, from),
            format_minute(analysis, to),
            format_number(capacity),
            percent(comparison.capacity)
        );
        tables.push((title, runs_table(&comparison)));
    }
    if analysis.decisions.len() > 1 {
        let title = "By quantile (the share of past load changes that a forecast is to cover)";
        tables.push((title.to_owned(), quantiles_table(analysis)));
    }
    tables
}

fn runs_table(comparison: &Comparison) -> Vec<Vec<String>> {
    let base = comparison.reactive.pod_hours;
    let row = |name: &str, outcome: Outcome| {
        vec![
            name.to_owned(),
            format!("{:.1}", outcome.pod_hours),
            format!("{:+.1} %", (outcome.pod_hours / base - 1.0) * 100.0),
            overload(&outcome),
            percent(outcome.overload()),
            percent(outcome.unserved),
        ]
    };
    let header =
        ["", "POD-HOURS", "CHANGE", "OVERLOADED FOR", "OF THE TIME", "LOAD BEYOND CAPACITY"];
    let lowered = format!("{}, no forecasts", lowered_target_label(comparison));
    vec![
        header.map(str::to_owned).to_vec(),
        row("without forecasts", comparison.reactive),
        row(&lowered, comparison.with_lowered_target),
        row("with forecasts", comparison.forecast),
        row("if the load were known", comparison.perfect),
    ]
}

/// The lowered target of a run without forecasts, which was chosen so that the run costs about as
/// much as the one with forecasts.
fn lowered_target_label(comparison: &Comparison) -> String {
    format!("target × {}", share_of_target(comparison.lowered_target))
}

/// Formats a share of the target with three to five decimals: as many as it needs to differ from 1.
fn share_of_target(share: f64) -> String {
    let mut texts = (3_usize..6).map(|digits| format!("{share:.digits$}"));
    texts.find(|text| !text.starts_with("1.")).unwrap_or_else(|| format!("{share:.3}"))
}

fn quantiles_table(analysis: &Analysis) -> Vec<Vec<String>> {
    let header = [
        "QUANTILE",
        "POD-HOURS",
        "OVERLOADED FOR",
        "OVERLOADED WITH LOWERED TARGET",
        "FORECASTS HELP",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (quantile, decision) in &analysis.decisions {
        let Some(comparison) = decision.comparison else { continue };
        rows.push(vec![
            quantile.to_string(),
            format!("{:.1}", comparison.forecast.pod_hours),
            overload(&comparison.forecast),
            overload(&comparison.with_lowered_target),
            benefit(decision.reason).to_owned(),
        ]);
    }
    rows
}

/// The table's cell about the benefit of forecasts.
fn benefit(reason: ForecastReason) -> &'static str {
    match reason {
        ForecastReason::Forecasting => "yes",
        ForecastReason::NoBenefit => "not enough",
        ForecastReason::NoSeason => "no: not forecastable",
        ForecastReason::NotEnoughHistory => "unknown: too little history",
        ForecastReason::SourceFailed => "unknown: the past can't be read",
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    name: &'a str,
    metric: Option<&'a str>,
    from: String,
    to: String,
    missing_share: f64,
    time_zone: Option<&'a str>,
    horizon_seconds: f64,
    startup_seconds: f64,
    target: f64,
    quantile: f64,
    #[serde(flatten)]
    decision: &'a GateDecision,
    quantiles: Vec<QuantileOutput<'a>>,
    assumptions: &'a [String],
}

#[derive(Serialize)]
struct QuantileOutput<'a> {
    quantile: f64,
    #[serde(flatten)]
    decision: &'a GateDecision,
}

pub(super) fn json(analysis: &Analysis) -> anyhow::Result<String> {
    let subject = &analysis.subject;
    let quantiles = analysis.decisions.iter();
    let (from, to) = load_range(&subject.trace);
    let output = Output {
        name: &subject.name,
        metric: subject.metric.as_deref(),
        from: from.to_string(),
        to: to.to_string(),
        missing_share: missing_share(&subject.trace),
        time_zone: analysis.settings.zone.iana_name(),
        horizon_seconds: analysis.settings.horizon.as_secs_f64(),
        startup_seconds: subject.workload.startup.as_secs_f64(),
        target: subject.workload.target,
        quantile: analysis.settings.quantile,
        decision: &analysis.decision,
        quantiles: quantiles
            .map(|(quantile, decision)| QuantileOutput { quantile: *quantile, decision })
            .collect(),
        assumptions: &subject.assumptions,
    };
    terminal::json(&output)
}

#[cfg(test)]
mod tests {
    use hpa_forecast::{Model, Trace, Workload};
    use jiff::{SignedDuration, tz::TimeZone};
    use rstest::rstest;

    use super::*;

    fn subject(metric: &str, is_custom: bool) -> Subject {
        Subject {
            name: "shop/web".to_owned(),
            metric: Some(metric.to_owned()),
            is_custom,
            trace: Trace::new(Vec::new()),
            workload: Workload::default(),
            assumptions: Vec::new(),
        }
    }

    fn settings() -> GateSettings {
        GateSettings::new(Workload::default(), TimeZone::UTC)
    }

    fn analysis(
        subject: Subject,
        reason: ForecastReason,
        comparison: Option<Comparison>,
    ) -> Analysis {
        let decision = GateDecision { reason, choice: None, comparison };
        Analysis { subject, settings: settings(), decisions: Vec::new(), decision, runs: None }
    }

    #[test]
    fn line_breaks_in_a_metric_name_are_escaped() {
        let subject = subject("a\n\u{1b}[31mb", false);
        let heading = heading(&analysis(subject, ForecastReason::NotEnoughHistory, None));
        assert!(heading.contains("shop/web, a\\n\\u{1b}[31mb, from "), "{heading}");
    }

    #[test]
    fn headline_has_the_difference_that_decides() {
        let outcome = |overload_minutes, unserved, pod_hours| Outcome {
            pod_hours,
            overload_minutes,
            minutes: 20_160.0,
            unserved,
        };
        let headline = |reason, lowered_minutes, overload_minutes| {
            let comparison = Comparison {
                capacity: 1.1,
                reactive: outcome(90.0, 0.003, 90.0),
                with_lowered_target: outcome(lowered_minutes, 0.0025, 107.0),
                lowered_target: 0.9,
                forecast: outcome(overload_minutes, 0.0012, 100.0),
                perfect: outcome(0.0, 0.0, 95.0),
                is_steady: true,
            };
            answer(&analysis(subject("cpu", false), reason, Some(comparison)))
        };
        assert_eq!(
            headline(ForecastReason::Forecasting, 42.0, 42.0),
            "Forecasts would have helped: 0.12 % of the load was beyond the assumed capacity of \
             simulated pods with forecasts, and 0.25 % without forecasts but with target × 0.900, \
             which costs 7 % more pod-hours than forecasts."
        );
        let by_time = "Forecasts would have helped: simulated pods with an assumed capacity were \
                       overloaded for 5m with forecasts, and for 42m without ";
        let text = headline(ForecastReason::Forecasting, 42.0, 5.0);
        assert!(text.starts_with(by_time), "{text}");
        let text = headline(ForecastReason::NoBenefit, 3.0, 0.0);
        let little = "At equal pod-hours, there is too little overload to judge forecasts (at \
                      least 11m are needed): simulated ";
        assert!(text.starts_with(little), "{text}");
    }

    #[rstest]
    #[case::smaller(0.5, "Errors are 50 % below those without a season.")]
    #[case::larger(-0.3, "Errors are not below those without a season.")]
    fn errors_are_compared_with_those_without_a_season(#[case] skill: f64, #[case] expected: &str) {
        let mut analysis = analysis(subject("cpu", false), ForecastReason::NoSeason, None);
        analysis.decision.choice = Some(ModelChoice { model: Model::default(), skill });
        let lines = details(&analysis);
        assert!(lines[1].ends_with(expected), "{lines:?}");
    }

    #[rstest]
    #[case::equal_as_printed(100.04, 100.0, "the same pod-hours")]
    #[case::slightly_fewer(99.4, 100.0, "0.6 % fewer pod-hours than forecasts")]
    #[case::barely_more(14521.2, 14519.4, "0.01 % more pod-hours than forecasts")]
    #[case::more(102.0, 100.0, "2 % more pod-hours than forecasts")]
    fn pod_hours_count_as_equal_if_the_table_prints_the_same_number(
        #[case] pod_hours: f64,
        #[case] base: f64,
        #[case] expected: &str,
    ) {
        assert_eq!(cost(pod_hours, base), expected);
    }

    #[rstest]
    #[case::core(
        false,
        "kubectl annotate hpa -n shop web --overwrite \\\n  \
         autoscaling.hpa-rs.dev/forecast=observe \
         autoscaling.hpa-rs.dev/forecast-quantile=0.9 \\\n  \
         autoscaling.hpa-rs.dev/forecast-horizon=90s"
    )]
    #[case::custom(
        true,
        r#"kubectl patch rhpa -n shop web --type=merge \
  -p '{"spec":{"forecast":"Observe","forecastHorizonSeconds":90,"forecastQuantile":"0.9"}}'"#
    )]
    fn setting_command_sets_quantile_and_horizon(#[case] is_custom: bool, #[case] expected: &str) {
        let subject = subject("requests", is_custom);
        let mut settings = settings();
        settings.quantile = 0.9;
        settings.horizon = SignedDuration::from_secs(90);
        assert_eq!(setting_command(&subject, &settings).join("\n"), expected);
    }
}
