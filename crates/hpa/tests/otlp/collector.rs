//! An OpenTelemetry collector that keeps what it is sent.

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
struct Kept {
    spans: Vec<Span>,
    resource: Vec<KeyValue>,
}

#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    /// What it answers.
    pub(crate) answer: watch::Sender<StatusCode>,
    /// How many requests it was sent.
    pub(crate) requests: watch::Sender<usize>,
    kept: Arc<Mutex<Kept>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (collector, router) = Self::at(listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        collector
    }

    /// One that is reached by TLS, and its certificate.
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
        let (collector, router) = Self::at(listener.local_addr().unwrap());
        let listener = TlsListener { listener, acceptor: Arc::new(config).into() };
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, cert.pem())
    }

    fn at(address: SocketAddr) -> (Self, Router) {
        let (answer, requests) = (watch::Sender::new(StatusCode::OK), watch::Sender::default());
        let collector = Self { address, answer, requests, kept: Arc::default() };
        (collector.clone(), Router::new().route("/v1/traces", post(take)).with_state(collector))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.kept.lock().spans.clone()
    }

    /// An attribute of who sent the spans.
    pub(crate) fn sender(&self, name: &str) -> Option<String> {
        attribute(&self.kept.lock().resource, name)
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
            // Who does not trust the certificate is not served.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn take(State(collector): State<Collector>, body: Bytes) -> StatusCode {
    let answer = *collector.answer.borrow();
    if answer.is_success() {
        let request = ExportTraceServiceRequest::decode(body).expect("an OTLP request");
        let mut kept = collector.kept.lock();
        for of_sender in request.resource_spans {
            kept.resource = of_sender.resource.unwrap_or_default().attributes;
            kept.spans.extend(of_sender.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    collector.requests.send_modify(|requests| *requests += 1);
    answer
}

/// An attribute, as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

/// The text of the error that a span ended in.
pub(crate) fn error(span: &Span) -> Option<&str> {
    let status = span.status.as_ref().filter(|status| status.code() == Code::Error)?;
    Some(&status.message)
}
