//! Serves requests of tower clients and HTTP connections.

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes},
    serve::ListenerExt as _,
};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    error::{ApiError, Disconnected},
    fault_injection,
    faults::Action,
    request::ApiRequest,
    response, router,
    server::Server,
};

/// A [`Testbed`](crate::Testbed) as a tower service.
#[derive(Clone)]
pub struct Service {
    pub(crate) server: Arc<Server>,
    /// The name of the client. If `None`, it is the product in the `User-Agent` header.
    pub(crate) client: Option<Arc<str>>,
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display + Send,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Disconnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = Arc::clone(&self.server);
        Box::pin(handle(server, self.client.clone(), request))
    }
}

/// Stops accepting HTTP connections when dropped.
#[derive(Debug)]
pub struct ServerHandle {
    _task: AbortOnDropHandle<io::Result<()>>,
}

impl ServerHandle {
    /// Starts serving in a task. Returns the bound address, and the handle that stops accepting
    /// when dropped.
    pub(crate) async fn serve(
        address: SocketAddr,
        router: Router,
    ) -> io::Result<(SocketAddr, Self)> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        // TCP_NODELAY, as in kube-apiserver: otherwise responses would wait for the ACK of their
        // first segment.
        let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
        let task = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((address, Self { _task: AbortOnDropHandle::new(task) }))
    }
}

async fn handle<B>(
    server: Arc<Server>,
    client: Option<Arc<str>>,
    request: Request<B>,
) -> Result<Response<Body>, Disconnected>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    if server.is_down() {
        return Err(Disconnected);
    }
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let text = format!("cannot read the request body: {error}");
            return Ok(response::error(&ApiError::bad_request(text)));
        }
    };
    let mut api_request = ApiRequest::new(parts.method, &parts.uri, &parts.headers, body);
    if let Some(client) = client {
        (*client).clone_into(&mut api_request.info.client);
    }
    let interceptor = server.config.interceptor.as_ref();
    let action = interceptor.map(|interceptor| interceptor.intercept(&api_request.info));
    match action.unwrap_or_default() {
        Action::Pass => {}
        Action::Hold(gate) => {
            let mut availability = server.subscribe();
            tokio::select! {
                biased;
                _ = availability.changed() => return Err(Disconnected),
                () = gate.pass() => {}
            }
        }
        // Boxed: otherwise requests without faults would also need memory for this large future.
        Action::Faults(faults) => {
            return Box::pin(fault_injection::handle(&server, api_request, faults)).await;
        }
    }
    Ok(router::route(&server, &api_request))
}

/// Handles an HTTP request. To close the connection without a response, returns a body that fails
/// at once.
pub(crate) async fn handle_http(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    handle(server, None, request).await.unwrap_or_else(|disconnected| {
        let body = futures::stream::once(async move { Err::<Bytes, _>(disconnected) });
        Response::new(Body::from_stream(body))
    })
}
