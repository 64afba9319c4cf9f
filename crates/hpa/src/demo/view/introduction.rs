//! The introduction that the demo prints at the start.

use std::net::SocketAddr;

use hpa_calc::explain::{minutes_and_seconds, number};

use crate::demo::model::DemoRecords;

/// Facts about the demo that are known at the start.
pub(crate) struct DemoInfo {
    pub(crate) scenario: String,
    /// Duration in simulated seconds.
    pub(crate) duration: f64,
    /// Simulated seconds per real second.
    pub(crate) speed: f64,
    pub(crate) kubeconfig: String,
    /// Address of the page that `hpa dashboard` shows.
    pub(crate) dashboard: Option<String>,
    /// The address at which Prometheus can scrape the cluster.
    pub(crate) metrics: Option<SocketAddr>,
    /// The address of the controller's debug API.
    pub(crate) debug_api: Option<SocketAddr>,
}

impl DemoInfo {
    /// The environment variable and its value with which `hpa explain` and `hpa status` find the
    /// debug API.
    pub(super) fn controller_url(&self) -> Option<String> {
        self.debug_api.map(|address| format!("HPA_CONTROLLER_URL=http://{address}"))
    }
}

/// Describes the demo, and how to use kubectl on it.
pub(super) fn introduction(info: &DemoInfo, records: &DemoRecords) -> String {
    let DemoInfo { scenario, duration, speed, kubeconfig, dashboard: page, metrics, .. } = info;
    let (simulated, real) = (minutes_and_seconds(*duration), minutes_and_seconds(duration / speed));
    let first = records.autoscalers.first();
    let first = first.map_or("NAME".to_owned(), |record| record.key.name.to_string());
    let page = page.as_ref().map_or(String::new(), |page| {
        format!("In a browser, the dashboard shows why the replicas change:\n  {page}\n")
    });
    let metrics = metrics.map_or(String::new(), |address| {
        format!("Prometheus can scrape the simulated cluster:\n  http://{address}/metrics\n")
    });
    let hpa_commands = info.controller_url().map_or(String::new(), |variable| {
        format!("  export {variable}\n  hpa explain {first}\n  hpa status\n")
    });
    format!(
        "hpa demo: {scenario}, {simulated} simulated in {real}, {} times normal speed\n\
         {page}\
         {metrics}\
         In another terminal, kubectl shows the simulated cluster:\n  \
           export KUBECONFIG={kubeconfig}\n  \
           kubectl get hpa --watch\n  \
           kubectl describe hpa {first}\n  \
           kubectl top pods\n{hpa_commands}\n",
        number(*speed)
    )
}
