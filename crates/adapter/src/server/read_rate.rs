//! A limit of the rate at which clients can send.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Clients may send as many bytes in advance as they may send in this time. For an unknown client,
/// these are 8 KiB, which suffice for a request with an ordinary token.
const BURST: Duration = Duration::from_millis(500);

/// The bytes that a connection, or several together, may send in a second. A byte can stand for a
/// whole header (HPACK), so bytes limit the CPU time that a client can use.
#[derive(Debug)]
pub(super) struct ReadBudget {
    bytes_per_second: u32,
    /// The time at which the clients could have sent everything that was read.
    paid_until: Mutex<Instant>,
}

impl ReadBudget {
    pub(super) fn new(bytes_per_second: u32) -> Arc<Self> {
        Arc::new(Self { bytes_per_second, paid_until: Mutex::new(Instant::now()) })
    }

    /// The time until which nothing must be read. `None` if the clients may send more now.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        let paid_until = *self.paid_until.lock();
        (paid_until > Instant::now() + BURST).then(|| paid_until - BURST)
    }

    /// Whether more was read than the clients could have sent by now.
    pub(super) fn is_in_debt(&self) -> bool {
        *self.paid_until.lock() > Instant::now()
    }

    pub(super) fn count(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let duration = Duration::from_secs(1) * bytes / self.bytes_per_second;
        let mut paid_until = self.paid_until.lock();
        *paid_until = (*paid_until).max(Instant::now()) + duration;
    }
}

/// A stream that reads within the budget that `budget` returns, or without a limit if it returns
/// `None`.
#[derive(Debug)]
pub(super) struct ReadRate<S, F> {
    stream: S,
    budget: F,
    /// Set while reading is paused.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S, F: Fn() -> Option<Arc<ReadBudget>>> ReadRate<S, F> {
    pub(super) fn new(stream: S, budget: F) -> Self {
        Self { stream, budget, pause: None }
    }

    /// Waits until the client may send more. Returns the budget that the bytes count against.
    fn poll_budget(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<ReadBudget>>> {
        loop {
            let budget = (self.budget)();
            let paused_until = budget.as_ref().and_then(|budget| budget.paused_until());
            let Some(until) = paused_until else {
                self.pause = None;
                return Poll::Ready(budget);
            };
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(until)));
            ready!(pause.as_mut().poll(context));
            // Another connection may have used the budget during the pause.
            self.pause = None;
        }
    }
}

impl<S: AsyncRead + Unpin, F: Fn() -> Option<Arc<ReadBudget>> + Unpin> AsyncRead
    for ReadRate<S, F>
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let budget = ready!(self.poll_budget(context));
        let filled = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(budget) = budget {
            budget.count(buffer.filled().len() - filled);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const KIB: usize = 1 << 10;
    const RATE: u32 = 16 << 10;

    #[tokio::test(start_paused = true)]
    async fn client_is_read_at_the_limited_rate() {
        let (server, mut client) = duplex(64 * KIB);
        let budget = ReadBudget::new(RATE);
        let mut server = ReadRate::new(server, || Some(budget.clone()));
        client.write_all(&vec![0; 64 * KIB]).await.unwrap();
        let started = Instant::now();
        let mut bytes = [0; KIB];
        for _ in 0..9 {
            server.read_exact(&mut bytes).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::ZERO, "8 KiB in advance, then a read");
        for _ in 9..64 {
            server.read_exact(&mut bytes).await.unwrap();
        }
        let elapsed = started.elapsed();
        assert!(elapsed >= Duration::from_secs(3) && elapsed < Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn client_is_read_at_once_when_its_limit_ends() {
        let (server, mut client) = duplex(1024 * KIB);
        let budget = ReadBudget::new(RATE);
        let is_known = Cell::new(false);
        let mut server = ReadRate::new(server, || (!is_known.get()).then(|| budget.clone()));
        client.write_all(&vec![0; 1024 * KIB]).await.unwrap();
        server.read_exact(&mut vec![0; 16 * KIB]).await.unwrap();
        is_known.set(true);
        let started = Instant::now();
        server.read_exact(&mut vec![0; 1008 * KIB]).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_one_budget_are_read_at_one_rate() {
        let budget = ReadBudget::new(RATE);
        let started = Instant::now();
        let read_all = || {
            let budget = budget.clone();
            async move {
                let (server, mut client) = duplex(32 * KIB);
                let mut server = ReadRate::new(server, || Some(budget.clone()));
                client.write_all(&vec![0; 32 * KIB]).await.unwrap();
                let mut bytes = [0; KIB];
                for _ in 0..32 {
                    server.read_exact(&mut bytes).await.unwrap();
                }
            }
        };
        tokio::join!(read_all(), read_all());
        let elapsed = started.elapsed();
        assert!(elapsed >= Duration::from_secs(3) && elapsed < Duration::from_secs(4));
    }
}
