//! The HTTP server of the page. Other users of the machine can connect to it as well. Their idle
//! connections must not keep the browser of the user out.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::sleep,
};

/// The maximum number of connections. It is far below the usual limit of open files (1024), and
/// above the number of event streams.
const MAX_CONNECTIONS: usize = 256;

/// The time limit for receiving a request head, from the start of the connection or the end of the
/// last response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after a failed accept. Without it, a lack of file descriptors would become a busy
/// loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct OpenConnection {
    task: AbortHandle,
    /// Whether the server has granted a request.
    is_trusted: Arc<AtomicBool>,
}

/// Serves forever. Dropping the future closes all connections.
///
/// Above the limit, a new connection replaces the oldest one without a granted request. If there is
/// none, the new connection is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let router = TowerToHyperService::new(router);
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<OpenConnection> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= MAX_CONNECTIONS && !close_oldest_untrusted(&mut open) {
            continue;
        }
        let is_trusted = Arc::new(AtomicBool::new(false));
        let task = tasks.spawn(serve_connection(stream, router.clone(), is_trusted.clone()));
        open.push_back(OpenConnection { task, is_trusted });
    }
}

/// Returns `false` if all connections are trusted.
fn close_oldest_untrusted(open: &mut VecDeque<OpenConnection>) -> bool {
    let oldest = open.iter().position(|connection| !connection.is_trusted.load(Ordering::Relaxed));
    let Some(closed) = oldest.and_then(|index| open.remove(index)) else { return false };
    closed.task.abort();
    true
}

async fn serve_connection(
    stream: TcpStream,
    router: TowerToHyperService<Router>,
    is_trusted: Arc<AtomicBool>,
) {
    // Without TCP_NODELAY, a response would wait for the ACK of its first segment.
    stream.set_nodelay(true).ok();
    let service = service_fn(move |request: Request<Incoming>| {
        let (response, is_trusted) = (router.call(request), is_trusted.clone());
        async move {
            let response = response.await?;
            if response.status().is_success() {
                is_trusted.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.serve_connection(TokioIo::new(stream), service).await.ok();
}
