//! Adds the controller's values, forecasts and last decision to what a command reads itself, and to
//! the report that it makes from that.

use hpa_calc::{
    Inputs, MilliValue, Reading, Report,
    api::MetricSourceType,
    explain::{MetricFailure, counted, metric_name, one_line},
    report::{FAILS_ELSEWHERE, about_missing_right},
};

use super::schema::Decision;
use crate::forecast::ForecastView;

/// The doubt about a report that has the sentence of the controller's last decision.
const OTHER_INPUTS: &str = "the controller made its last decision on other inputs";

/// A decision of the controller to stay at the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StayDecision {
    pub replicas: i32,
    /// The pods that it counted for each metric, by the index in the spec.
    pub counted_pods: Vec<Option<u64>>,
}

impl StayDecision {
    /// Advice if there is a [doubt](Self::doubt).
    pub const ADVICE: &str = "If the controller counts other pods for longer than two sync \
                              periods, its cache of pods is old: hpa status says how old. \
                              HPAControllerWatchStale in docs/alerts.md has the causes, such as a \
                              missing right to watch pods.";

    /// A doubt if a decision on these inputs scales from the same replicas, and counts other pods
    /// than the controller did. The controller may not have seen the newest pods.
    pub fn doubt(&self, inputs: &Inputs) -> Option<String> {
        let decision = inputs.decide();
        let explanation = decision.explanation();
        let winner = explanation.winner?;
        let live_pods = u64::try_from(explanation.metrics.get(winner)?.counted_pods?).ok()?;
        let known_pods = self.counted_pods.get(winner).copied().flatten()?;
        let replicas = self.replicas;
        let contradicts = explanation.current_replicas == replicas && decision.scale_to().is_some();
        (contradicts && known_pods != live_pods).then(|| {
            format!(
                "the controller stayed at {replicas} in its last decision, which counted {}, not \
                 {live_pods}",
                counted(known_pods, "pod")
            )
        })
    }
}

/// Adds the controller's newest forecasts to the readings of a decision.
pub fn fill_forecasts(inputs: &mut Inputs, forecasts: &[ForecastView]) {
    for view in forecasts {
        if let Some(forecast) = view.newest() {
            inputs.readings.insert_forecast(view.index, forecast);
        }
    }
}

/// Replaces missing and failed readings of Object and External metrics with `values`, see
/// [`AutoscalerDetail::last_values`], and adds `errors`, see [`AutoscalerDetail::last_errors`].
/// With `are_current`, also replaces other readings that clearly differ: the controller may read
/// the metric from another source. Returns the names of the metrics with replaced readings.
///
/// [`AutoscalerDetail::last_values`]: super::AutoscalerDetail::last_values
/// [`AutoscalerDetail::last_errors`]: super::AutoscalerDetail::last_errors
pub fn fill_readings(
    inputs: &mut Inputs,
    values: &[Option<MilliValue>],
    are_current: bool,
    errors: Vec<Option<String>>,
) -> Vec<String> {
    inputs.readings.set_controller_errors(errors);
    let mut filled = Vec::new();
    for (index, spec) in inputs.hpa.spec.metrics.iter().enumerate() {
        let Some(value) = values.get(index).copied().flatten() else { continue };
        if let Some(Ok(own)) = inputs.readings.get(index) {
            let differs = |own| clearly_differs(own, value.as_milli().into());
            if !are_current || !own.total_milli().is_some_and(differs) {
                continue;
            }
        }
        let reading = match spec.source_type {
            MetricSourceType::Object => Reading::Object(value.into()),
            MetricSourceType::External => Reading::External(vec![value].into()),
            _ => continue,
        };
        inputs.readings.insert(index, Ok(reading));
        filled.push(metric_name(&inputs.hpa.spec.metrics, index));
    }
    filled
}

/// Replaces the sentence of a report by the controller's `decision`, if the report lacks metrics
/// that the controller could read or did not need, or if only the controller could not decide. See
/// [`AutoscalerDetail::decision_in_effect`], and for its `errors`
/// [`AutoscalerDetail::last_errors`].
///
/// [`AutoscalerDetail::decision_in_effect`]: super::AutoscalerDetail::decision_in_effect
/// [`AutoscalerDetail::last_errors`]: super::AutoscalerDetail::last_errors
pub fn replace_sentence(report: &mut Report, decision: &Decision, errors: &[Option<String>]) {
    let Some(sentence) = sentence_of_controller(report, decision, errors) else {
        add_failed_write(report, decision);
        return;
    };
    report.sentence = one_line(&sentence).into_owned();
    report.doubt.get_or_insert_with(|| OTHER_INPUTS.to_owned());
    // The report already has the advice about a failed write, from the status.
    if let Some(failure) = failure_to_decide(decision) {
        // Nothing scales before the controller can decide again.
        report.discard_consequences();
        let cause = one_line(cause(failure));
        if !report.advice.iter().any(|one| one.contains(&*cause)) {
            report.advice.insert(0, advice_about_failure(failure));
        }
    }
}

/// Adds the failure of the last write of the scale to the sentence, unless the sentence already has
/// it from the status. A report writes no scale, so its decision may succeed.
fn add_failed_write(report: &mut Report, decision: &Decision) {
    let is_missing =
        report.scale_to.is_some() && !report.sentence.contains("could not write the scale");
    let failure = decision.failure().filter(|failure| is_failed_write(failure));
    if let Some(failure) = failure.filter(|_| is_missing) {
        let doubt = format!("the controller could not write the scale: {}", cause(failure));
        let doubt = one_line(&doubt).into_owned();
        let sentence = report.sentence.replacen("scales from ", "would scale from ", 1);
        report.sentence = format!("{sentence}; {doubt}");
        report.doubt.get_or_insert(doubt);
    }
}

/// The reason why the controller could not decide. `None` if it only could not write the scale.
fn failure_to_decide(decision: &Decision) -> Option<&str> {
    decision.failure().filter(|failure| !is_failed_write(failure))
}

/// Whether the controller decided, but could not write the scale: the failure is the text of a
/// [`ReconcileError::Rescale`](hpa_calc::ReconcileError::Rescale).
fn is_failed_write(failure: &str) -> bool {
    failure.starts_with("failed to rescale ")
}

/// A failure without its first part, which names the step.
fn cause(failure: &str) -> &str {
    failure.split_once(": ").map_or(failure, |(_, cause)| cause)
}

fn advice_about_failure(failure: &str) -> String {
    let about_right = about_missing_right(failure).map(|advice| {
        format!("{advice} The ClusterRole of the chart hpa-controller has all rights.")
    });
    let advice = about_right.unwrap_or_else(|| FAILS_ELSEWHERE.to_owned());
    one_line(&format!("The controller can't decide: {failure}. {advice}")).into_owned()
}

/// The sentence of [`replace_sentence`]. `None` if the controller may decide as the report does.
fn sentence_of_controller(
    report: &Report,
    decision: &Decision,
    errors: &[Option<String>],
) -> Option<String> {
    // If `errors` is empty, the controller evaluated no metrics, for example because of the bounds.
    let has_failed = |index: usize| errors.get(index).map_or(!errors.is_empty(), Option::is_some);
    let unread = report.metrics.iter().filter(|metric| {
        metric.explanation.failure == Some(MetricFailure::Fetch) && !has_failed(metric.index)
    });
    let names: Vec<_> = unread.map(|metric| metric.name.as_str()).collect();
    let difference = if !names.is_empty() {
        format!("{} can't be read here", names.join(" and "))
    } else if report.desired_replicas.is_some()
        && failure_to_decide(decision).is_some()
        && !fails_alike(report, errors)
    {
        "this doesn't fail here".to_owned()
    } else {
        return None;
    };
    let clause = clause_of_controller(decision, report.current_replicas);
    Some(format!("{clause}, as the controller decided last; {difference}"))
}

/// Whether the metrics that the controller could not read also fail here. The report can still have
/// a decision, for example because the next failed reading activates a fallback.
fn fails_alike(report: &Report, errors: &[Option<String>]) -> bool {
    let failed_here = |index: usize| {
        let metric = report.metrics.iter().find(|metric| metric.index == index);
        metric.is_some_and(|metric| metric.explanation.failure.is_some())
    };
    let failed = errors.iter().enumerate().filter(|(_, error)| error.is_some());
    let mut failed = failed.map(|(index, _)| index).peekable();
    failed.peek().is_some() && failed.all(failed_here)
}

/// The decision in a clause such as `stays at 4: cpu is at 60%`, in the past tense if the target
/// already has the replicas.
fn clause_of_controller(decision: &Decision, current_replicas: Option<i32>) -> String {
    let sentence = &decision.sentence;
    match (decision.current_replicas, decision.scaled_to) {
        (Some(from), Some(to)) if current_replicas == Some(to) => {
            format!("scaled from {from} to {to}: {sentence}")
        }
        _ => format!("{}: {sentence}", decision.action()),
    }
}

/// Whether two values differ by more than a tenth of the larger one, the default tolerance.
fn clearly_differs(one: i128, other: i128) -> bool {
    let larger = one.unsigned_abs().max(other.unsigned_abs());
    one.abs_diff(other).saturating_mul(10) > larger
}

#[cfg(test)]
mod tests {
    use hpa_calc::{
        History, HorizontalPodAutoscaler, MetricsApi, ReadError, Readings, Scale, SelectedPods,
        Settings, settings::MetricSettings,
    };
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    /// The inputs of an autoscaler with these metrics and 4 of at most 5 replicas.
    fn inputs(metrics: &[Value], readings: Readings) -> Inputs {
        let hpa = serde_json::json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": {
                "maxReplicas": 5, "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "metrics": metrics,
            },
        });
        Inputs {
            hpa: serde_json::from_value::<HorizontalPodAutoscaler>(hpa).expect("an autoscaler"),
            scale: Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() }),
            settings: Settings::default(),
            selected: SelectedPods::default(),
            readings,
            history: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn external_metric(name: &str) -> Value {
        serde_json::json!({ "type": "External", "external": {
            "metric": { "name": name },
            "target": { "type": "AverageValue", "averageValue": "10" },
        } })
    }

    /// The decision of a reconcile that failed at 4 replicas.
    fn failed(sentence: String) -> Decision {
        Decision { current_replicas: Some(4), sentence, ..Decision::default() }
    }

    #[test]
    fn decision_of_the_controller_names_the_metrics_that_only_it_could_read() {
        let jobs = serde_json::json!({ "type": "Pods", "pods": {
            "metric": { "name": "jobs" },
            "target": { "type": "AverageValue", "averageValue": "10" },
        } });
        let mut readings = Readings::new();
        readings.insert(0, Err(ReadError::fetch(MetricsApi::Custom, "unknown")));
        let report = inputs(&[jobs], readings).report();
        let decision = |current: i32, desired: i32, sentence: &str| Decision {
            current_replicas: Some(current),
            desired_replicas: Some(desired),
            scaled_to: (current != desired).then_some(desired),
            sentence: sentence.to_owned(),
            ..Decision::default()
        };
        let sentence = |decision: &Decision, errors: &[Option<String>]| {
            sentence_of_controller(&report, decision, errors)
        };
        let by_metric = decision(4, 4, "jobs is at 9");
        let expected =
            "stays at 4: jobs is at 9, as the controller decided last; jobs can't be read here";
        assert_eq!(sentence(&by_metric, &[None]).as_deref(), Some(expected));
        assert_eq!(sentence(&by_metric, &[Some("unknown".to_owned())]), None);
        // The bounds decided, so the controller evaluated no metric. The target has 4 replicas, not
        // yet 5.
        let expected = "scaled from 2 to 4: minReplicas is 4, as the controller decided last; jobs \
                        can't be read here";
        let by_bounds = sentence(&decision(2, 4, "minReplicas is 4"), &[]);
        assert_eq!(by_bounds.as_deref(), Some(expected));
        let ongoing = sentence(&decision(4, 5, "minReplicas is 5"), &[]);
        assert!(ongoing.is_some_and(|ongoing| ongoing.starts_with("scales from 4 to 5: ")));
    }

    /// The fallback becomes active with the next reading.
    #[test]
    fn failure_that_also_occurs_here_does_not_replace_the_decision() {
        let mut readings = Readings::new();
        readings.insert(0, Err(ReadError::fetch(MetricsApi::External, "down")));
        let mut inputs = inputs(&[external_metric("jobs")], readings);
        let fallback = serde_json::json!({ "replicas": 5, "failureDurationSeconds": 0 });
        let mut settings = MetricSettings::default();
        settings.fallback = serde_json::from_value(fallback).expect("a fallback");
        inputs.settings.metrics = Some([settings].into());
        inputs.history = Some(History::default());
        let mut report = inputs.report();
        let decision = failed("invalid metrics (1 invalid out of 1): down".to_owned());
        replace_sentence(&mut report, &decision, &[Some("down".to_owned())]);
        assert!(report.sentence.starts_with("scales from 4 to 5: "), "{}", report.sentence);
        assert_eq!(report.doubt, None);
    }

    #[rstest]
    #[case::only_in_the_record(false)]
    #[case::in_the_status(true)]
    fn failed_write_of_the_controller_is_in_the_first_line(#[case] is_stored: bool) {
        let reading = Reading::External(vec![MilliValue::from_milli(90_000)].into());
        let readings = [(0, Ok(reading))].into_iter().collect();
        let mut inputs = inputs(&[external_metric("jobs")], readings);
        inputs.history = Some(History::default());
        if is_stored {
            let able = serde_json::json!([{
                "type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale",
                "message": "the HPA controller was unable to update the target scale: denied",
            }]);
            inputs.hpa.status.conditions = serde_json::from_value(able).expect("conditions");
        }
        let (target, message) = ("Deployment/shop/web".to_owned(), "denied".to_owned());
        let error = hpa_calc::ReconcileError::Rescale { target, message };
        let mut report = inputs.report();
        replace_sentence(&mut report, &failed(error.to_string()), &[None]);
        let sentence = &report.sentence;
        assert!(sentence.starts_with("would scale from 4 to 5: jobs is at "), "{sentence}");
        let failure = "; the controller could not write the scale: denied";
        assert!(sentence.ends_with(failure), "{sentence}");
        assert_eq!(sentence.matches(failure).count(), 1, "{sentence}");
        assert!(!report.to_string().contains("doesn't fail here"), "{report}");
    }

    /// The controller read 70 for the first metric and 9 for the second one.
    #[rstest]
    #[case::differs(true, Some(&[200, 70][..]), true)]
    #[case::of_an_old_reconcile(false, Some(&[200, 70][..]), false)]
    #[case::about_the_same(true, Some(&[50, 25][..]), false)]
    #[case::no_series(true, Some(&[][..]), true)]
    #[case::failed(false, None, true)]
    fn value_of_the_controller_replaces_a_reading(
        #[case] are_current: bool,
        #[case] own: Option<&[i64]>,
        #[case] is_replaced: bool,
    ) {
        let milli = |value: i64| MilliValue::from_milli(value * 1000);
        let mut readings = Readings::new();
        if let Some(own) = own {
            let own: Vec<_> = own.iter().copied().map(milli).collect();
            readings.insert(0, Ok(Reading::External(own.into())));
        }
        readings.insert(1, Ok(Reading::External(vec![milli(9)].into())));
        let metrics = ["jobs", "same"].map(external_metric);
        let mut inputs = inputs(&metrics, readings);
        let values = [Some(milli(70)), Some(milli(9))];
        let filled = fill_readings(&mut inputs, &values, are_current, Vec::new());
        let expected: &[&str] = if is_replaced { &["jobs"] } else { &[] };
        assert_eq!(filled, expected);
    }
}
