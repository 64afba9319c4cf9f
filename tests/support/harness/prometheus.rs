//! HTTP servers, and responses for fakes of Prometheus.

use std::net::{Ipv4Addr, SocketAddr};

use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Rules for the metric `http_requests_per_second` of pods.
pub const REQUEST_RULES: &str = r#"
rules:
- seriesQuery: '{__name__="http_requests_total",namespace!="",pod!=""}'
  resources:
    overrides:
      namespace: {resource: namespace}
      pod: {resource: pod}
  name: {matches: "^(.*)_total$", as: "${1}_per_second"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[10s])) by (<<.GroupBy>>)
"#;

/// Serves on a loopback port until the runtime ends.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A successful response of Prometheus.
pub fn prometheus_success(data: Value) -> Json<Value> {
    Json(json!({ "status": "success", "data": data }))
}
