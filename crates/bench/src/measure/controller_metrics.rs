//! The metrics of a measured controller.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use tokio::time::timeout;

use crate::{controller::Controller, exposition::sum};

const TIMEOUT: Duration = Duration::from_secs(10);
const RECONCILES: &str = "horizontal_pod_autoscaler_controller_reconciliations_total";
/// Histogram of the time between two periodic reconciles, as a multiple of the period.
const DELAYS: &str = "horizontal_pod_autoscaler_controller_reconciliation_delay_ratio";

/// A controller's metrics at one time. `None` for those that it does not export.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ControllerMetrics {
    pub(super) reconciles: Option<u64>,
    /// Count and sum of the delay ratios.
    pub(super) delay_ratios: Option<(f64, f64)>,
}

impl ControllerMetrics {
    fn parse(text: &str) -> Self {
        let delays = |suffix: &str| sum(text, &format!("{DELAYS}_{suffix}"));
        let reconciles = sum(text, RECONCILES);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is a count"
        )]
        let reconciles = reconciles.map(|count| count as u64);
        Self { reconciles, delay_ratios: delays("count").zip(delays("sum")) }
    }

    /// Reads the metrics with a [`metrics_client`].
    pub(super) async fn read(client: &Client) -> Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let response = timeout(TIMEOUT, client.request_text(request)).await;
        let text = response
            .context("no response from the controller")?
            .context("cannot read the controller's metrics")?;
        Ok(Self::parse(&text))
    }
}

/// A client of the metrics endpoint of a controller on this machine.
pub(super) fn metrics_client(controller: &Controller, port: u16) -> Result<Client> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut config = Config::new(format!("{}://{address}", controller.metrics_scheme()).parse()?);
    // The reference has a self-signed certificate. The connection does not leave this machine.
    config.accept_invalid_certs = true;
    Ok(Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_summed_and_delays_are_optional() {
        let text = r#"horizontal_pod_autoscaler_controller_reconciliations_total{action="none",error="none"} 40
horizontal_pod_autoscaler_controller_reconciliations_total{action="scale_up",error="none"} 2
"#;
        assert_eq!(
            ControllerMetrics::parse(text),
            ControllerMetrics { reconciles: Some(42), delay_ratios: None }
        );
        let delays = r#"horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_bucket{period_source="global",le="1"} 0
horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_sum{period_source="global"} 44.5
horizontal_pod_autoscaler_controller_reconciliation_delay_ratio_count{period_source="global"} 40
"#;
        let delay_ratios = ControllerMetrics::parse(&format!("{text}{delays}")).delay_ratios;
        assert_eq!(delay_ratios, Some((40.0, 44.5)));
        assert_eq!(ControllerMetrics::parse(""), ControllerMetrics::default());
    }
}
