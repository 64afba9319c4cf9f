//! Probes on a separate port.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use async_trait::async_trait;
use hpa_adapter::{Adapter, metrics_api::UrlQuery, server::Connection};
use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use tracing::info;

use crate::{
    args::ServingArguments,
    serve::{self, Endpoints, Heartbeat, Server},
};

/// Serves `/livez`, `/readyz` and `/healthz`, unless the port is 0.
pub(super) async fn start(
    arguments: &ServingArguments,
    adapter: Arc<Adapter>,
) -> anyhow::Result<Option<Server>> {
    if arguments.health_port == 0 {
        return Ok(None);
    }
    let address = SocketAddr::new(arguments.bind_address, arguments.health_port);
    let probes = Probes { adapter, heartbeat: Heartbeat::start() };
    let (server, address) =
        serve::serve_on_thread(address, None, 0, probes).await.with_context(|| {
            format!("unable to serve probes on {address} (--bind-address, --health-port)")
        })?;
    info!(%address, "serving probes");
    Ok(Some(server))
}

struct Probes {
    adapter: Arc<Adapter>,
    heartbeat: Arc<Heartbeat>,
}

#[async_trait]
impl Endpoints for Probes {
    async fn respond(
        &self,
        request: &Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Bytes> {
        serve::mark_used(connection);
        let query = UrlQuery::parse(request.uri().query().unwrap_or_default());
        let health = self.adapter.health_response(request.uri().path(), &query);
        match (health, self.heartbeat.check()) {
            (Some(response), Ok(())) => response,
            (Some(_), Err(stuck)) => serve::health_response(Err(stuck)),
            (None, _) => {
                let text = "not found; try /livez, /readyz or /healthz\n";
                serve::text_response(StatusCode::NOT_FOUND, text)
            }
        }
    }
}
