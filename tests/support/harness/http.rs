//! HTTP servers and requests, and the rules and responses for fakes of Prometheus.

use std::net::{Ipv4Addr, SocketAddr};

use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::harness::WAIT_TIMEOUT;

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

/// Sends a GET to a loopback port, and returns the response with its head.
pub async fn http_get(port: u16, path: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        std::io::Result::Ok(response)
    };
    timeout(WAIT_TIMEOUT, exchange).await.expect("in time").expect("a response")
}

/// A successful response of Prometheus.
pub fn prometheus_success(data: Value) -> Json<Value> {
    Json(json!({ "status": "success", "data": data }))
}
