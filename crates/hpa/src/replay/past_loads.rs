//! Reads past loads from Prometheus, for forecasts in the controller.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::forecast::{PastError, PastLoads, PastRange};
use hpa_forecast::Trace;
use hpa_prometheus::{
    client::Client,
    source::{PrometheusSource, RuleStatus},
};

use super::{
    fetch::{ReadFailure, Reader},
    metric::{Metric, Source},
    query::TargetRef,
    read::rate_window,
    series::Series,
    window::Window,
};

/// A source of past loads that uses the queries of `hpa replay`.
pub(crate) struct PrometheusPastLoads {
    pub(crate) client: Client,
    /// The rules of `--metrics-config`.
    pub(crate) rules: Option<Arc<PrometheusSource>>,
}

impl PastLoads for PrometheusPastLoads {
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>> {
        self.read(hpa, metric, range).boxed()
    }
}

impl PrometheusPastLoads {
    async fn read(
        &self,
        hpa: &HorizontalPodAutoscaler,
        index: usize,
        range: PastRange,
    ) -> Result<Trace, PastError> {
        let unknown = |text: &str| PastError::Unknown(text.to_owned());
        let spec = hpa.spec.metrics.get(index).ok_or_else(|| unknown("no such metric"))?;
        let metric = Metric::new(hpa, index, spec);
        let metric = metric.map_err(|error| unknown(&format!("{error:#}")))?;
        if self.rules.is_none() && matches!(metric.source, Source::External(_)) {
            // Without a rule, series of this name may belong to any namespace.
            let text = format!("no rule says which series of {} belong to it", metric.name);
            return Err(PastError::Unknown(text));
        }
        let target = TargetRef::new(hpa);
        let window = window_of(range);
        let reader = Reader { client: &self.client, window, progress: None };
        let metrics = std::slice::from_ref(&metric);
        let rate = rate_window(None, &reader, &target, metrics).await.map_err(read_error)?;
        let query = target.metric_query(&metric, self.rules.as_deref(), rate);
        let query = query.map_err(|message| match &self.rules {
            Some(rules) if !has_listed(rules) => PastError::Failed {
                error: message,
                cause: "the series of the rules are not listed yet".to_owned(),
            },
            _ => PastError::Unknown(message),
        })?;
        let replicas = if metric.is_multiplied() {
            reader.read(&target.replicas_query(None)).await.map_err(read_error)?
        } else {
            Series::default()
        };
        let value = reader.read(&query).await.map_err(read_error)?;
        let load = metric.total(value, &replicas);
        if load.is_empty() {
            let text = format!("Prometheus has no samples of {}", query.subject);
            return Err(PastError::Unknown(text));
        }
        Ok(Trace::new(window.samples(&load)))
    }
}

/// Whether the series of all valid rules are listed. Until then, it is unknown whether a rule has a
/// metric.
fn has_listed(rules: &PrometheusSource) -> bool {
    let needs_no_list = |rule: &RuleStatus| {
        let is_invalid = rule.error.is_some() && rule.failures == 0;
        rule.last_success.is_some() || is_invalid || rule.rule == "resourceRules"
    };
    rules.has_tried_discovery() && rules.rule_status().iter().all(needs_no_list)
}

fn window_of(PastRange { from, until, step_seconds }: PastRange) -> Window {
    let step_seconds = i64::from(step_seconds.max(1));
    let seconds = until.as_second().saturating_sub(from.as_second()).max(0);
    Window { start: from, step_seconds, step_count: seconds / step_seconds }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn read_error(error: anyhow::Error) -> PastError {
    let cause = error.downcast_ref::<ReadFailure>().map(|failure| failure.cause.clone());
    PastError::Failed {
        error: format!("{error:#}"),
        cause: cause.unwrap_or_else(|| "see the controller log".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use hpa_prometheus::{
        client::Settings,
        rules::Config,
        source::{PrometheusSettings, Servers},
    };
    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        cached_pods::{CachedPods, FetchedPods},
        rules::builtin,
    };

    fn hpa() -> HorizontalPodAutoscaler {
        let target = json!({ "type": "AverageValue", "averageValue": "10" });
        let resource = json!({ "name": "cpu", "target": target });
        let metric = json!({ "name": "requests" });
        let named = json!({ "metric": metric, "target": target });
        let metrics: Vec<Value> = vec![
            json!({ "type": "External", "external": named }),
            json!({ "type": "Pods", "pods": named }),
            json!({ "type": "Resource", "resource": resource }),
        ];
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 30, "metrics": metrics,
            },
        }))
        .unwrap()
    }

    /// The error for a metric if the server refuses connections.
    async fn load_error(metric: usize, rules: Option<&str>) -> PastError {
        let settings = Settings::new("main", "http://127.0.0.1:1").unwrap();
        let client = Client::new(settings, Arc::new(())).unwrap();
        let rules = rules.map(|rules| {
            let config = Config::parse(rules).unwrap();
            let servers = Servers::new(Some(client.clone()), Arc::new(()));
            let pods = Arc::new(CachedPods(Arc::new(FetchedPods::default())));
            let settings = PrometheusSettings::default();
            PrometheusSource::new(config, servers, settings, builtin::mapper(), pods).unwrap()
        });
        let past = PrometheusPastLoads { client, rules: rules.map(Arc::new) };
        let until = Timestamp::from_second(1_800_000_000).unwrap();
        let range =
            PastRange { from: until - SignedDuration::from_hours(1), until, step_seconds: 60 };
        past.load(&hpa(), metric, range).await.unwrap_err()
    }

    #[tokio::test]
    async fn external_metric_without_a_rule_is_not_read() {
        let expected = "no rule says which series of requests belong to it";
        assert_eq!(load_error(0, None).await, PastError::Unknown(expected.to_owned()));
        let PastError::Failed { cause, .. } = load_error(1, None).await else { panic!("unknown") };
        assert!(cause.starts_with("the request to Prometheus at 127.0.0.1:1 failed: "));
    }

    #[test]
    fn queries_without_a_rule_read_one_namespace() {
        let hpa = hpa();
        let target = TargetRef::new(&hpa);
        for index in 1..3 {
            let metric = Metric::new(&hpa, index, &hpa.spec.metrics[index]).unwrap();
            let text = target.metric_query(&metric, None, 60).unwrap().text;
            let selectors = text.matches('{').count()
                - text.matches("{1,10}").count()
                - text.matches("{5}").count();
            assert_eq!(text.matches(r#"namespace="shop""#).count(), selectors, "{text}");
        }
    }

    #[tokio::test]
    async fn metric_that_no_rule_has_is_unknown_once_series_are_listed() {
        for metric in 0..2 {
            let error_with = |rules| load_error(metric, Some(rules));
            assert!(matches!(error_with("rules: []").await, PastError::Unknown(_)));
            let unlisted = "rules:\n- seriesQuery: up\n  metricsQuery: sum(<<.Series>>)\n";
            assert!(matches!(error_with(unlisted).await, PastError::Failed { .. }));
        }
    }
}
