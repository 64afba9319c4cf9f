//! The proxy in front of an API server, which records the controller's requests.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    response::Response,
};
use hpa_testbed::Testbed;

use super::{
    cluster::Cluster,
    metrics::{count_bytes, respond},
    upstream::Upstream,
};
use crate::request_info::RequestInfo;

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) backend: Backend,
    pub(super) cluster: Cluster,
}

/// The API server behind the proxy.
#[derive(Clone)]
pub(super) enum Backend {
    Testbed(Testbed),
    Upstream(Arc<Upstream>),
}

impl Proxy {
    pub(super) fn router(self) -> Router {
        let endpoints = self.cluster.router();
        let fallback = |State(proxy): State<Self>, request: Request| proxy.respond(request);
        Router::new().fallback(fallback).with_state(self).merge(endpoints)
    }

    async fn respond(self, request: Request) -> Response {
        let received = Instant::now();
        let info = RequestInfo::new(request.method(), request.uri());
        let load = &self.cluster.load;
        let response = match &self.backend {
            Backend::Testbed(testbed) => respond(testbed, load, &info, request).await,
            Backend::Upstream(upstream) => upstream.respond(load, &info, request).await,
        };
        let recorder = &self.cluster.recorder;
        let is_success = response.status().is_success();
        self.cluster.record_response(&info, recorder.now(), received.elapsed(), is_success);
        count_bytes(response, recorder.byte_counter(&info.kind))
    }
}
