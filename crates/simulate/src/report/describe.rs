//! What a chart shows, for readers who can't see it.

use hpa_calc::explain::number;

use super::{format::percent, format::span, recorded::RecordedReplicas};
use crate::{
    file::Variant,
    run::{Point, Run},
};

pub(super) fn describe(
    variant: &Variant,
    run: &Run,
    recorded: Option<&RecordedReplicas>,
) -> String {
    let outcome = &run.outcome;
    let mut sentences = vec![
        format!("{} over {}.", variant.name, span(variant.cluster.duration.get())),
        format!(
            "Load {}, capacity {} ({}); {} of the load is beyond the capacity or too late.",
            range(run, |point| point.load),
            range(run, |point| point.capacity),
            variant.load_unit,
            percent(outcome.overload.share_of_load)
        ),
        format!(
            "Replicas {} to {}, {} on average, of at least {} and at most {}; {} scalings.",
            outcome.replicas.min,
            outcome.replicas.max,
            number(outcome.replicas.mean),
            variant.autoscaler.spec.effective_min_replicas(),
            variant.autoscaler.spec.max_replicas,
            run.steps.len()
        ),
    ];
    if let Some((min, max)) = recorded.and_then(RecordedReplicas::range) {
        sentences.push(format!("Recorded replicas {min} to {max}."));
    }
    let undecided: f64 = run.problems.iter().map(|problem| problem.to - problem.from).sum();
    if undecided > 0.0 {
        sentences.push(format!("The autoscaler can't decide for {}.", span(undecided)));
    }
    sentences.join(" ")
}

fn range(run: &Run, value: impl Fn(&Point) -> f64) -> String {
    let values = || run.timeline.iter().map(&value);
    let ends = (values().reduce(f64::min), values().reduce(f64::max));
    let (Some(min), Some(max)) = ends else { return "unknown".to_owned() };
    format!("{} to {}", number(min), number(max))
}
