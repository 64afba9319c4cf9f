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
    let totals = record.workload.as_ref().map(|workload| workload.totals);
    let average = totals.zip(record.samples.last());
    let average = average.map(|(totals, last)| number(totals.pod_seconds / last.second.max(1.0)));
    let shortage = totals.map(|totals| minutes_and_seconds(totals.underserved_seconds));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        record.key.name.to_string(),
        record.decision_count.to_string(),
        record.scale_up_count.to_string(),
        record.scale_down_count.to_string(),
        or_dash(replica_range(&record.samples)),
        or_dash(average),
        or_dash(average_needed(&record.samples).map(number)),
        or_dash(served_share(record)),
        or_dash(shortage),
    ]
}

/// The share of the load that was served, or of the queued units that were drained, as a
/// percentage. `None` without load.
fn served_share(record: &AutoscalerRecord) -> Option<String> {
    let QueueTotals { arrived, drained } = record.queue_totals;
    let totals = record.workload.as_ref()?.totals;
    let (part, whole) = (totals.served + drained, totals.offered + arrived);
    (whole > 0.0).then(|| format!("{:.1}%", part / whole * 100.0))
}

/// The smallest and the largest `spec.replicas`, as in `2..9`. `None` without samples.
fn replica_range(samples: &[WorkloadSample]) -> Option<String> {
    let desired = || samples.iter().map(|sample| sample.desired);
    Some(format!("{}..{}", desired().min()?, desired().max()?))
}

/// The pods needed, averaged over time. `None` if the samples cover no time.
fn average_needed(samples: &[WorkloadSample]) -> Option<f64> {
    let (mut needed, mut total) = (0.0, 0.0);
    for (sample, seconds) in violations::intervals(samples) {
        needed += f64::from(sample.needed) * seconds;
        total += seconds;
    }
    (total > 0.0).then_some(needed / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_is_weighted_by_time() {
        let sample =
            |second, needed| WorkloadSample { second, needed, ..WorkloadSample::default() };
        let samples = [sample(0.0, 9), sample(10.0, 1), sample(11.0, 12)];
        assert!(average_needed(&samples).is_some_and(|needed| (needed - 2.0).abs() < 1e-9));
        assert_eq!(average_needed(&samples[..1]), None);
    }

    #[test]
    fn range_of_replicas_is_unknown_without_samples() {
        let sample = |desired| WorkloadSample { desired, ..WorkloadSample::default() };
        assert_eq!(replica_range(&[sample(3), sample(2)]).as_deref(), Some("2..3"));
        assert_eq!(replica_range(&[]), None);
    }
}
