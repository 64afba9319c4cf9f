//! The metrics APIs over TLS, where the API server's aggregation layer asks for them.

use std::{io, net::SocketAddr, sync::Arc};

use anyhow::Result;
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    serve::Listener,
};
use hpa_testbed::{Config, Testbed};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
    server::TlsStream,
};

use super::pki::Identity;
use crate::{
    cluster::Cluster,
    front::{answer_with_metrics, count_bytes, is_of_metrics},
    load::Load,
    record::Record,
    request::About,
};

/// Connections that were accepted but not taken up.
const BACKLOG: usize = 64;

/// What an answer needs.
#[derive(Clone)]
struct Metrics {
    load: Arc<Load>,
    record: Arc<Record>,
    /// Without objects; knows how the APIs are discovered, and answers for external metrics.
    testbed: Testbed,
}

/// Serves for as long as this process runs.
pub(super) fn serve(listener: TcpListener, identity: &Identity, cluster: &Cluster) -> Result<()> {
    let key = PrivatePkcs8KeyDer::from(identity.key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.der().clone()], key.into())?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let address = listener.local_addr()?;
    let (accepted, connections) = mpsc::channel(BACKLOG);
    tokio::spawn(accept(listener, acceptor, accepted));
    let (load, record) = (Arc::clone(&cluster.load), Arc::clone(&cluster.record));
    let testbed =
        Testbed::new(Config { metrics: Some(Arc::<Load>::clone(&load)), ..Config::default() });
    let router = Router::new().fallback(answer).with_state(Metrics { load, record, testbed });
    tokio::spawn(async move { axum::serve(Connections { connections, address }, router).await });
    Ok(())
}

type Connection = (TlsStream<TcpStream>, SocketAddr);

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, accepted: mpsc::Sender<Connection>) {
    while let Ok((stream, peer)) = listener.accept().await {
        let (acceptor, accepted) = (acceptor.clone(), accepted.clone());
        let _ = stream.set_nodelay(true);
        // Who is slow to shake hands must not keep others waiting.
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // Nobody takes it up if the server ends.
                let _ = accepted.send((stream, peer)).await;
            }
        });
    }
}

/// Connections that have shaken hands.
struct Connections {
    connections: mpsc::Receiver<Connection>,
    address: SocketAddr,
}

impl Listener for Connections {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Answers for the metrics APIs, and for nothing else that a testbed has.
async fn answer(State(metrics): State<Metrics>, request: Request) -> Response {
    if !is_of_metrics(request.uri().path()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let about = About::new(request.method(), request.uri());
    let answer = answer_with_metrics(&metrics.testbed, &metrics.load, &about, request).await;
    if about.kind.resource.is_empty() {
        // The API server asks that for itself, to see whether somebody is there.
        return answer;
    }
    count_bytes(answer, metrics.record.bytes_of(&about.kind))
}
