//! The metrics APIs over TLS, and whatever else the API server is to call, as the aggregation layer of the API server wants them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

use crate::metrics::Metrics;
use crate::pki::Identity;

/// The running server; it ends when this is dropped.
pub(crate) struct MetricsServer {
    pub(crate) port: u16,
    _tasks: JoinSet<()>,
}

impl MetricsServer {
    pub(crate) async fn start(metrics: Metrics, identity: &Identity, more: Router) -> Result<Self> {
        let key = PrivatePkcs8KeyDer::from(identity.key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));

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
        let router = Router::new().fallback(answer).with_state(metrics).merge(more);
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

async fn answer(
    State(metrics): State<Metrics>,
    Query(query): Query<HashMap<String, String>>,
    uri: Uri,
) -> Response {
    let path: Vec<String> = uri.path().split('/').map(|part| part.replace("%2A", "*")).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let result = match path.as_slice() {
        ["", "apis", rest @ ..] => metrics.answer(rest, &query),
        _ => Err((404, "not found".to_owned())),
    };
    match result {
        Ok(value) => Json(value).into_response(),
        Err((code, message)) => {
            let reason = match code {
                404 => "NotFound",
                503 => "ServiceUnavailable",
                _ => "BadRequest",
            };
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": code,
            });
            (StatusCode::from_u16(code).unwrap_or_default(), Json(status)).into_response()
        }
    }
}
