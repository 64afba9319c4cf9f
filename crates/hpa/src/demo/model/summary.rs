//! The summary at the end: a table of all autoscalers, and the violations.

use hpa_calc::explain::{minutes_and_seconds, number};

use super::{
    autoscaler_record::{AutoscalerRecord, QueueTotals, WorkloadSample},
    records::DemoRecords,
    violations::{self, CRITERIA, violations},
};
use crate::terminal;

/// The result of the demo.
pub(crate) struct Summary {
    pub(crate) text: String,
    /// Whether the controller followed the load, for all autoscalers of the scenario.
    pub(crate) followed_load: bool,
}

const HEADINGS: [&str; 9] =
    ["HPA", "DECISIONS", "UP", "DOWN", "REPLICAS", "AVERAGE", "NEEDED", "SERVED", "SHORTAGE"];
const LEGEND: &str = "\
UP, DOWN: times scaled. AVERAGE, NEEDED: replicas and the pods that the load
needed, over time. SHORTAGE: time in which not all load was served.";

impl Summary {
    pub(crate) fn new(records: &DemoRecords) -> Self {
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(records.autoscalers.iter().map(table_row));
        let table = terminal::aligned(&rows, "  ");
        let checked = || records.autoscalers.iter().filter(|record| record.is_in_scenario);
        let violations: String = checked()
            .flat_map(|record| {
                let name = &record.key.name;
                violations(record).into_iter().map(move |text| format!("  {name}: {text}\n"))
            })
            .collect();
        let count = checked().count();
        let result = match (count, violations.is_empty()) {
            (0, _) => {
                "No autoscaler of the scenario exists, so there is nothing to judge.".to_owned()
            }
            (1, true) => "The controller followed the load for the autoscaler.".to_owned(),
            (_, true) => format!("The controller followed the load for all {count} autoscalers."),
            (_, false) => "The controller did NOT follow the load:".to_owned(),
        };
        let text = format!("{table}{LEGEND}\n\n{result}\n{violations}\n{CRITERIA}");
        Self { text, followed_load: violations.is_empty() && count > 0 }
    }
}

fn table_row(record: &AutoscalerRecord) -> Vec<String> {
    let (min, max) = replica_range(&record.samples);
    let workload = record.workload.as_ref();
    let seconds = record.samples.last().map_or(0.0, |last| last.second);
    let average = workload.map_or(0.0, |workload| workload.totals.pod_seconds) / seconds.max(1.0);
    vec![
        record.key.name.to_string(),
        record.decision_count.to_string(),
        record.scale_up_count.to_string(),
        record.scale_down_count.to_string(),
        format!("{min}..{max}"),
        number(average),
        number(average_needed(&record.samples)),
        served_share(record),
        workload.map_or("-".to_owned(), |workload| {
            minutes_and_seconds(workload.totals.underserved_seconds)
        }),
    ]
}

/// The share of the load that was served, or of the queued units that were drained.
fn served_share(record: &AutoscalerRecord) -> String {
    let QueueTotals { arrived, drained } = record.queue_totals;
    let totals = record.workload.as_ref().map(|workload| workload.totals).unwrap_or_default();
    percent(totals.served + drained, totals.offered + arrived)
}

/// The smallest and the largest `spec.replicas`.
fn replica_range(samples: &[WorkloadSample]) -> (u32, u32) {
    let desired = || samples.iter().map(|sample| sample.desired);
    (desired().min().unwrap_or_default(), desired().max().unwrap_or_default())
}

/// The pods needed, averaged over time.
fn average_needed(samples: &[WorkloadSample]) -> f64 {
    let (mut needed, mut total) = (0.0, 0.0);
    for (sample, seconds) in violations::intervals(samples) {
        needed += f64::from(sample.needed) * seconds;
        total += seconds;
    }
    if total > 0.0 { needed / total } else { 0.0 }
}

/// Formats `part / whole` as a percentage, or `-` if `whole` is zero.
fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", part / whole * 100.0) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_is_weighted_by_time() {
        let sample =
            |second, needed| WorkloadSample { second, needed, ..WorkloadSample::default() };
        let samples = [sample(0.0, 9), sample(10.0, 1), sample(11.0, 12)];
        assert!((average_needed(&samples) - 2.0).abs() < 1e-9);
        assert_eq!(replica_range(&[]), (0, 0));
    }
}
