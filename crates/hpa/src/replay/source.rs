//! The past of loads, for forecasts in the controller.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::forecast::{PastError, PastLoads, PastRange};
use hpa_forecast::Trace;
use hpa_prometheus::{client::Client, source::PrometheusProvider};
use jiff::SignedDuration;

use super::{
    fetch::Reader, metric::Metric, query::TargetRef, read::rate_window, series::Series,
    window::Window,
};

/// Reads past loads from Prometheus, as `hpa replay` does.
pub(crate) struct PrometheusPast {
    pub(crate) client: Client,
    /// The rules of `--metrics-config`.
    pub(crate) rules: Option<Arc<PrometheusProvider>>,
}

impl PastLoads for PrometheusPast {
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>> {
        self.read(hpa, metric, range).boxed()
    }
}

impl PrometheusPast {
    async fn read(
        &self,
        hpa: &HorizontalPodAutoscaler,
        index: usize,
        range: PastRange,
    ) -> Result<Trace, PastError> {
        let unknown = |text: &str| PastError::Unknown(text.to_owned());
        let spec = hpa.spec.metrics.get(index).ok_or_else(|| unknown("no such metric"))?;
        let metric = Metric::new(index, spec).map_err(|error| unknown(&format!("{error:#}")))?;
        let target = TargetRef::of(hpa);
        let window = window(range);
        let reader = Reader { client: &self.client, window, progress: None };
        let metrics = std::slice::from_ref(&metric);
        let rate = rate_window(None, &reader, &target, metrics).await.map_err(failed)?;
        let query = target.metric(&metric, self.rules.as_deref(), rate);
        let query = query.map_err(|message| match &self.rules {
            // Series may not be listed yet.
            Some(_) => PastError::Failed(message),
            None => PastError::Unknown(message),
        })?;
        let replicas = if metric.is_shared() {
            reader.read(&target.replicas(None)).await.map_err(failed)?
        } else {
            Series::default()
        };
        let value = reader.read(&query).await.map_err(failed)?;
        let load = metric.total(value, &replicas);
        if load.is_empty() {
            let text = format!("Prometheus has no samples of {}", query.what);
            return Err(PastError::Unknown(text));
        }
        let samples = load.0.iter().enumerate().filter_map(|(step, load)| {
            let offset = i64::try_from(step).ok()?.checked_mul(window.step)?;
            let at = window.start.checked_add(SignedDuration::from_secs(offset)).ok()?;
            Some((at, (*load)?))
        });
        Ok(Trace::new(samples))
    }
}

fn window(PastRange { from, until, step }: PastRange) -> Window {
    let step = i64::from(step.max(1));
    let steps = until.as_second().saturating_sub(from.as_second()).max(0) / step;
    Window { start: from, step, steps }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: anyhow::Error) -> PastError {
    PastError::Failed(format!("{error:#}"))
}
