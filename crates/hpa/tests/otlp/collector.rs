//! An OpenTelemetry collector that stores what it receives.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post, serve::Listener};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, status::StatusCode as Code},
};
use parking_lot::Mutex;
use prost::Message;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring::default_provider, pki_types::PrivateKeyDer},
    server::TlsStream,
};

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    resource: Vec<KeyValue>,
}

#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    /// The status of its responses.
    pub(crate) status: watch::Sender<StatusCode>,
    /// Number of requests received.
    pub(crate) requests: watch::Sender<usize>,
    received: Arc<Mutex<Received>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (collector, router) = Self::new(listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        collector
    }

    /// Starts a collector with TLS. Returns its certificate too.
    pub(crate) async fn start_with_tls() -> (Self, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (collector, router) = Self::new(listener.local_addr().unwrap());
        let listener = TlsListener { listener, acceptor: Arc::new(config).into() };
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, cert.pem())
    }

    fn new(address: SocketAddr) -> (Self, Router) {
        let (status, requests) = (watch::Sender::new(StatusCode::OK), watch::Sender::default());
        let collector = Self { address, status, requests, received: Arc::default() };
        (collector.clone(), Router::new().route("/v1/traces", post(receive)).with_state(collector))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().spans.clone()
    }

    /// An attribute of the resource that sent the last spans.
    pub(crate) fn resource_attribute(&self, name: &str) -> Option<String> {
        attribute(&self.received.lock().resource, name)
    }
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            // The handshake fails if the client doesn't trust the certificate.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn receive(State(collector): State<Collector>, body: Bytes) -> StatusCode {
    let status = *collector.status.borrow();
    if status.is_success() {
        let request = ExportTraceServiceRequest::decode(body).expect("an OTLP request");
        let mut received = collector.received.lock();
        for group in request.resource_spans {
            received.resource = group.resource.unwrap_or_default().attributes;
            received.spans.extend(group.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    collector.requests.send_modify(|requests| *requests += 1);
    status
}

/// The value of an attribute as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

/// The description of a span's error status.
pub(crate) fn span_error(span: &Span) -> Option<&str> {
    let status = span.status.as_ref().filter(|status| status.code() == Code::Error)?;
    Some(&status.message)
}
