//! An HTTPS server in this process that kube-apiserver calls: aggregated APIs and webhooks.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Result;
use axum::{Router, serve::Listener};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
    server::TlsStream,
};

use crate::kube_apiserver::pki::Identity;

/// Capacity of the queue of connections that have completed the TLS handshake. Further ones wait in
/// their tasks.
const MAX_BACKLOG: usize = 64;

/// A running server on a loopback port. Dropping the handle stops it.
pub struct HttpsServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

type Connection = (TlsStream<TcpStream>, SocketAddr);

impl HttpsServer {
    pub(crate) async fn start(identity: &Identity, router: Router) -> Result<Self> {
        let key = PrivatePkcs8KeyDer::from(identity.key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (sender, connections) = mpsc::channel(MAX_BACKLOG);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, sender));
        tasks.spawn(async move {
            let _ = axum::serve(TlsListener { connections, address }, router).await;
        });
        Ok(Self { address, _tasks: tasks })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, sender: mpsc::Sender<Connection>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        let _ = stream.set_nodelay(true);
        // In its own task: a slow handshake must not delay other connections.
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // Fails only after the server has stopped.
                let _ = sender.send((stream, peer)).await;
            }
        });
    }
}

struct TlsListener {
    connections: mpsc::Receiver<Connection>,
    address: SocketAddr,
}

impl Listener for TlsListener {
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
