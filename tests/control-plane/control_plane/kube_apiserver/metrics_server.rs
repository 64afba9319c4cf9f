//! The metrics APIs over TLS, as the aggregation layer of the API server wants them, and whatever else that is to call.
//!
//! A testbed without objects answers: what it makes of the metrics is then what both control planes show.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hpa_testbed::{Config, Testbed};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::pki::Identity;
use crate::metrics::Metrics;

/// The running server; it ends when this is dropped.
pub(super) struct MetricsServer {
    pub(super) port: u16,
    _tasks: JoinSet<()>,
}

impl MetricsServer {
    pub(super) async fn start(metrics: Metrics, identity: &Identity, more: Router) -> Result<Self> {
        let key = PrivatePkcs8KeyDer::from(identity.key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));

        let testbed =
            Testbed::new(Config { metrics: Some(Arc::new(metrics)), ..Config::default() });
        let socket = TcpListener::bind("127.0.0.1:0").await?;
        let addr = socket.local_addr()?;
        let (accepted, connections) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let Ok((stream, peer)) = socket.accept().await else { continue };
                let (acceptor, accepted) = (acceptor.clone(), accepted.clone());
                // A peer that is slow to shake hands must not keep the others waiting.
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(accepted.send((stream, peer)).await);
                    }
                });
            }
        });
        let router = Router::new().fallback(answer).with_state(testbed).merge(more);
        tasks.spawn(async move {
            drop(axum::serve(Connections { connections, addr }, router).await);
        });
        Ok(Self { port: addr.port(), _tasks: tasks })
    }
}

/// Connections whose handshake is done.
struct Connections {
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    addr: SocketAddr,
}

impl axum::serve::Listener for Connections {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.addr)
    }
}

/// Answers for the metrics APIs, and for nothing else that a testbed has.
async fn answer(State(testbed): State<Testbed>, request: Request) -> Response {
    let group = request.uri().path().strip_prefix("/apis/").unwrap_or_default();
    if !group.split('/').next().is_some_and(|group| group.ends_with("metrics.k8s.io")) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match testbed.service().oneshot(request).await {
        Ok(response) => response,
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
