//! A time limit for clients that read nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    time::{Sleep, sleep},
};

/// A stream whose writes fail after `limit` if the peer reads nothing in that time.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Set while a write is pending.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, timer: None }
    }

    /// Fails a write that has been pending for the limit.
    fn limit_pending<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        let message = format!("the client read nothing for {} s", limit.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_pending(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit_pending(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit_pending(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit_pending(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::Instant,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const PAUSE: Duration = Duration::from_secs(29);

    #[tokio::test(start_paused = true)]
    async fn write_fails_when_nothing_is_read_for_the_limit() {
        let (server, mut client) = duplex(4);
        let mut server = WriteTimeout::new(server, LIMIT);
        let started = Instant::now();
        let reads = async {
            for _ in 0..3 {
                sleep(PAUSE).await;
                client.read_u8().await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(server.write_all(b"a long response"), reads);
        let error = written.unwrap_err();
        assert_eq!(error.to_string(), "the client read nothing for 30 s");
        assert_eq!(started.elapsed(), 3 * PAUSE + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_between_writes_is_not_limited() {
        let (server, mut client) = duplex(4);
        let mut server = WriteTimeout::new(server, LIMIT);
        for _ in 0..3 {
            server.write_all(b"ok").await.unwrap();
            server.flush().await.unwrap();
            sleep(2 * LIMIT).await;
            client.read_u16().await.unwrap();
        }
    }
}
