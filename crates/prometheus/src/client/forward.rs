//! Sends plain HTTP requests through a proxy, with the absolute URL of the server, as Go does. kube
//! would use CONNECT, which many proxies permit only for TLS ports.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hpa_go_compat::proxy::Proxy;
use http::Uri;
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Config,
    client::{Body, ConfigExt},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower::{BoxError, ServiceBuilder, service_fn};

/// A connection to a proxy. Its requests contain the whole URL of the server.
struct ProxyStream(TcpStream);

impl Connection for ProxyStream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(true)
    }
}

impl AsyncRead for ProxyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for ProxyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Creates a client that sends plain HTTP requests through a proxy.
pub(crate) fn client(config: &Config, proxy: &Proxy) -> Result<kube::Client, kube::Error> {
    let host = proxy.url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = proxy.url.port_u16().unwrap_or(80);
    let connector = service_fn(move |_: Uri| {
        let host = host.clone();
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(TokioIo::new(ProxyStream(stream)))
        })
    });
    let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(kube::Client::new(service, "default"))
}
