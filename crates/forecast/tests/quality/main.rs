//! Measures the quality of forecasts: the same autoscaler on recorded loads, with and without
//! forecasts, and with two simple rules. Prints a table:
//!
//! ```sh
//! cargo test -p hpa-forecast --test quality -- --nocapture
//! ```
//!
//! `HPA_FORECAST_TRACES` names a folder with further traces in the format of `traces/`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

mod baselines;
mod traces;

use std::fmt::Write as _;

use hpa_forecast::{
    Backtest, Comparison, GateSettings, Outcome, Workload, decide, first_measured, overload_ratio,
};

use self::traces::{NamedTrace, TraceKind, days};

/// The results on one trace.
struct Row {
    name: String,
    kind: TraceKind,
    comparison: Comparison,
    /// The outcome with forecasts only on days on which the gate is open. It decides by the data
    /// before the day. Also the outcome without forecasts at the same cost.
    gated: (Outcome, Outcome),
    open_days: usize,
    measured_days: usize,
    /// The same two outcomes for [`baselines::seasonal_naive`].
    naive: (Outcome, Outcome),
    /// The same two outcomes for [`baselines::holt_winters`].
    holt_winters: (Outcome, Outcome),
    /// The same two outcomes for [`Backtest::perfect`].
    perfect: (Outcome, Outcome),
    reason: String,
}

fn measure(named: &NamedTrace) -> Row {
    let trace = named.scaled();
    let settings = GateSettings::new(Workload::default(), named.zone.clone());
    let first = first_measured(&trace) / days(1) * days(1);
    let backtest = Backtest::new(&trace, &settings, first);
    let comparison = backtest.compare();
    // The outcome with these forecasts, and without forecasts at the same cost.
    let compare = |forecasts: &[f32]| {
        let outcome = backtest.run(1.0, Some(forecasts));
        (outcome, backtest.at_cost(outcome.pod_hours).0)
    };
    let mut forecasts = backtest.forecasts();
    let (mut open_days, mut measured_days, mut reason) = (0, 0, String::new());
    for start in (first..trace.len()).step_by(days(1)) {
        let known = trace.slice(start.saturating_sub(days(28))..start);
        let decision = decide(&known, &settings);
        measured_days += 1;
        reason = format!("{:?}", decision.reason);
        if decision.reason.is_active() {
            open_days += 1;
        } else {
            let end = (start + days(1)).min(trace.len());
            forecasts[start..end].fill(f32::NAN);
        }
    }
    Row {
        name: named.name.clone(),
        kind: named.kind,
        comparison,
        gated: compare(&forecasts),
        open_days,
        measured_days,
        naive: compare(&baselines::seasonal_naive(&trace, &settings)),
        holt_winters: compare(&baselines::holt_winters(&trace, &settings, first)),
        perfect: compare(&backtest.perfect()),
        reason,
    }
}

impl Row {
    /// The additional pod-hours compared with the reactive autoscaler, and the overload as a share
    /// of that without forecasts at equal cost.
    fn cell(&self, (outcome, lowered): (Outcome, Outcome)) -> String {
        let added_cost = outcome.pod_hours / self.comparison.reactive.pod_hours - 1.0;
        format!("{:+5.1} %  {:>5}", added_cost * 100.0, share(overload_ratio(outcome, lowered)))
    }

    fn assert_guarantees(&self) {
        let (name, reactive) = (&self.name, self.comparison.reactive);
        let (gated, lowered) = self.gated;
        let is_worse = gated.overload_minutes > reactive.overload_minutes * 1.02;
        assert!(!is_worse, "{name}: more overload than without forecasts");
        let added_cost = gated.pod_hours / reactive.pod_hours - 1.0;
        let ratio = overload_ratio(gated, lowered);
        match self.kind {
            TraceKind::Seasonal => assert!(ratio <= 0.5, "{name}: {ratio} of the overload"),
            TraceKind::Unpredictable => {
                assert!(ratio <= 1.0 || added_cost <= 0.02, "{name}: {added_cost} more pod-hours");
            }
            TraceKind::Unknown => {}
        }
    }

    fn line(&self) -> String {
        let Comparison { reactive, with_lowered_target, forecast, capacity, .. } = self.comparison;
        format!(
            "{:<24} {:>5.2} {:>6.2} % | {} | {} | {} | {} | {} | {:>2}/{:<2} {}",
            self.name,
            capacity,
            reactive.overload() * 100.0,
            self.cell((forecast, with_lowered_target)),
            self.cell(self.gated),
            self.cell(self.naive),
            self.cell(self.holt_winters),
            self.cell(self.perfect),
            self.open_days,
            self.measured_days,
            self.reason,
        )
    }
}

fn share(ratio: f64) -> String {
    if ratio > 9.99 { ">10".to_owned() } else { format!("{ratio:.2}") }
}

#[test]
fn gate_keeps_its_guarantees_on_recorded_loads() {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{:<24} {:>5} {:>8} | {:^15} | {:^15} | {:^15} | {:^15} | {:^15} | days open",
        "trace", "cap.", "reactive", "forecast", "with gate", "naive", "Holt-Winters", "perfect"
    );
    let rows: Vec<Row> = traces::all().iter().map(measure).collect();
    for row in &rows {
        let _ = writeln!(text, "{}", row.line());
    }
    println!("{text}");
    for row in &rows {
        row.assert_guarantees();
    }
}
