//! What a controller tells of itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use tokio::time::timeout;

use crate::{controller::Controller, exposition::sum};

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const RECONCILES: &str = "horizontal_pod_autoscaler_controller_reconciliations_total";
/// Of the time between two reconciles by period, as a multiple of that.
const DELAYS: &str = "horizontal_pod_autoscaler_controller_reconciliation_delay_ratio";

/// A controller's metrics at one moment; none that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OwnMetrics {
    /// How many reconciles there were.
    pub(crate) reconciles: Option<u64>,
    /// How many of them had a period before them, and how many periods these took together.
    pub(crate) periods: Option<(f64, f64)>,
}

impl OwnMetrics {
    fn parse(text: &str) -> Self {
        let of = |suffix: &str| sum(text, &format!("{DELAYS}_{suffix}"));
        let reconciles = sum(text, RECONCILES);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is a count"
        )]
        let reconciles = reconciles.map(|count| count as u64);
        Self { reconciles, periods: of("count").zip(of("sum")) }
    }
}

/// Asks a controller for its metrics.
pub(crate) struct Source {
    client: Client,
}

impl Source {
    /// Of a controller that serves them on this port of the loopback device.
    pub(crate) fn new(controller: &Controller, port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut config =
            Config::new(format!("{}://{address}", controller.metrics_scheme()).parse()?);
        // It has made itself a certificate that nobody knows. Nobody else can be behind a loopback port of ours.
        config.accept_invalid_certs = true;
        Ok(Self { client: Client::try_from(config)? })
    }

    pub(crate) async fn read(&self) -> Result<OwnMetrics> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let answer = timeout(PATIENCE, self.client.request_text(request)).await;
        let text = answer
            .context("the controller does not answer")?
            .context("cannot read the controller's metrics")?;
        Ok(OwnMetrics::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_added_up_and_periods_may_lack() {
        let text = r#"horizontal_pod_autoscaler_controller_reconciliations_total{action="none",error="none"} 40
horizontal_pod_autoscaler_controller_reconciliations_total{action="scale_up",error="none"} 2
"#;
        assert_eq!(OwnMetrics::parse(text), OwnMetrics { reconciles: Some(42), periods: None });
        let delays = r#"horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_bucket{period_source="global",le="1"} 0
horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_sum{period_source="global"} 44.5
horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_count{period_source="global"} 40
"#;
        let periods = OwnMetrics::parse(&format!("{text}{delays}")).periods;
        assert_eq!(periods, Some((40.0, 44.5)));
        assert_eq!(OwnMetrics::parse(""), OwnMetrics::default());
    }
}
