//! Clients without credentials that send requests whose few bytes decode to many headers (HPACK).

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt, copy, sink, split},
    net::TcpStream,
    time::interval,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The types and flags of frames.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM_AND_HEADERS: u8 = 5;

/// `GET https://localhost/version` with the header `a: b`, which enters the dynamic table.
const REQUEST: &[u8] = b"\x82\x87\x41\x09localhost\x44\x08/version\x40\x01a\x01b";

/// The newest header of the dynamic table.
const NEWEST_HEADER: u8 = 0xBE;

/// The number of requests that are sent at once.
const BATCH: u32 = 100;

/// Accepts each certificate, because the adapter generates its own.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

async fn connect(port: u16) -> io::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends requests with `header_count` headers each, until the server closes the connection.
async fn send_requests(port: u16, header_count: usize) -> io::Result<()> {
    let (mut responses, mut sender) = split(connect(port).await?);
    let send = async {
        sender.write_all(PREFACE).await?;
        sender.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        let mut request = REQUEST.to_vec();
        request.resize(REQUEST.len() + header_count - 1, NEWEST_HEADER);
        for batch in 0.. {
            let streams = (0..BATCH).map(|index| 2 * (batch * BATCH + index) + 1);
            let frames: Vec<u8> = streams
                .flat_map(|stream| frame(HEADERS, END_STREAM_AND_HEADERS, stream, &request))
                .collect();
            sender.write_all(&frames).await?;
        }
        Ok::<_, io::Error>(())
    };
    let mut sink = sink();
    tokio::select! {
        result = send => result,
        received = copy(&mut responses, &mut sink) => received.map(drop),
    }
}

/// Repeats [`send_requests`] forever, each time with a new connection.
async fn reconnect_forever(port: u16, header_count: usize) {
    let mut ticks = interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        send_requests(port, header_count).await.ok();
    }
}

/// Sends requests with `header_count` headers each on `connection_count` connections, without end.
pub(super) async fn send_forever(port: u16, connection_count: usize, header_count: usize) {
    let connections = (0..connection_count).map(|_| reconnect_forever(port, header_count));
    futures::future::join_all(connections).await;
}
