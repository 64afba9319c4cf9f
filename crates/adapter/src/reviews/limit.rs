//! Limits that clients share fairly: of concurrent work, and of the rate of reviews.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::reviews::{ReviewError, User};

/// The client or user of a request. Flows share a limit fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(u64);

/// Keyed per process: clients can't craft collisions.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Flow {
    /// The flow of an address. The addresses of an IPv6 network (/64) are one flow: a client can
    /// choose any of them.
    pub fn of_address(address: IpAddr) -> Self {
        Self::from_key(network(address))
    }

    /// The flow of a user. The service accounts of a namespace are one flow: a tenant can create
    /// any number.
    pub fn of_user(user: &User) -> Self {
        let name = &user.name;
        let account = name.strip_prefix("system:serviceaccount:");
        let namespace = account.and_then(|account| account.split(':').next());
        Self::from_key((namespace.is_some(), namespace.unwrap_or(name)))
    }

    fn from_key(key: impl Hash) -> Self {
        Self(HASHER.hash_one(key))
    }
}

/// The part of an address that a client can't change: an IPv4 address, or the first 64 bits of an
/// IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A limit on concurrent use. The amount that a flow uses may exceed the free amount by at most
/// one. A single flow therefore gets at most half of the limit, rounded up.
pub(crate) struct FairLimit {
    limit: usize,
    used: Mutex<HashMap<Flow, usize>>,
    released: Notify,
}

/// A part of a [`FairLimit`], held until it is dropped.
pub(crate) struct FairPermit {
    limit: Arc<FairLimit>,
    flow: Flow,
    amount: usize,
}

impl FairLimit {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default(), released: Notify::new() })
    }

    /// Half of the limit. A flow can acquire it at once while almost nothing is used.
    pub(crate) fn max_amount(&self) -> usize {
        self.limit / 2
    }

    /// Acquires an amount. `None` if the amount of the flow would then exceed the free amount by
    /// two or more.
    pub(crate) fn try_acquire(self: &Arc<Self>, flow: Flow, amount: usize) -> Option<FairPermit> {
        let mut used = self.used.lock();
        let all = used.values().sum::<usize>() + amount;
        let of_flow = used.get(&flow).copied().unwrap_or_default() + amount;
        if of_flow + all > self.limit + 1 {
            return None;
        }
        used.insert(flow, of_flow);
        Some(FairPermit { limit: self.clone(), flow, amount })
    }

    /// Waits until the flow may use the amount.
    async fn acquire(self: &Arc<Self>, flow: Flow, amount: usize) -> FairPermit {
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if let Some(permit) = self.try_acquire(flow, amount) {
                return permit;
            }
            released.await;
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let mut used = self.limit.used.lock();
        if let Some(of_flow) = used.get_mut(&self.flow) {
            *of_flow -= self.amount;
            if *of_flow == 0 {
                used.remove(&self.flow);
            }
        }
        drop(used);
        self.limit.released.notify_waiters();
    }
}

/// Limits running reviews, and running and waiting reviews together. A flow can use half of each
/// limit.
pub struct ReviewLimit {
    admitted: Arc<FairLimit>,
    running: Arc<FairLimit>,
    rate: Option<RateLimit>,
}

impl ReviewLimit {
    pub fn new(running: usize, waiting: usize) -> Self {
        let (admitted, running) = (FairLimit::new(running + waiting), FairLimit::new(running));
        Self { admitted, running, rate: None }
    }

    /// Also limits the rate of admitted reviews, in total and for each flow.
    #[must_use]
    pub fn with_rate(self, all: Rate, each: Rate) -> Self {
        Self { rate: Some(RateLimit::new(all, each)), ..self }
    }

    /// Waits for a slot and runs a review. Fails at once if too many are waiting, or if the rate is
    /// exceeded.
    pub async fn run<T>(
        &self,
        flow: Flow,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let _admitted = self.admitted.try_acquire(flow, 1).ok_or(ReviewError::TooMany)?;
        if self.rate.as_ref().is_some_and(|rate| !rate.take(flow)) {
            return Err(ReviewError::TooMany);
        }
        let _running = self.running.acquire(flow, 1).await;
        review.await
    }
}

/// Limits a rate, in total and for each flow.
struct RateLimit {
    all: Rate,
    each: Rate,
    /// The time when each bucket is full again, by flow. `None` is the bucket of all flows.
    full_at: Mutex<HashMap<Option<Flow>, Instant>>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub per_second: u32,
    /// The size of the bucket.
    pub burst: u32,
}

impl Rate {
    /// Takes a token. Returns the time when the bucket is full again, or `None` if it is empty.
    fn take(self, full_at: Option<Instant>, now: Instant) -> Option<Instant> {
        let token = Duration::from_secs(1) / self.per_second;
        let full_at = full_at.map_or(now, |at| at.max(now)) + token;
        (full_at <= now + token * self.burst).then_some(full_at)
    }
}

impl RateLimit {
    fn new(all: Rate, each: Rate) -> Self {
        Self { all, each, full_at: Mutex::default() }
    }

    /// Takes a token from the bucket of the flow and one from the bucket of all flows. If either is
    /// empty, takes none and returns `false`.
    fn take(&self, flow: Flow) -> bool {
        let now = Instant::now();
        let flow = Some(flow);
        let mut full_at = self.full_at.lock();
        // Full buckets are dropped. The rate of all flows limits the number of entries.
        full_at.retain(|_, at| now < *at);
        let each = self.each.take(full_at.get(&flow).copied(), now);
        let all = self.all.take(full_at.get(&None).copied(), now);
        let (Some(each), Some(all)) = (each, all) else { return false };
        full_at.extend([(flow, each), (None, all)]);
        true
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::pending};
    use tokio::time::advance;

    use super::*;

    const EVE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const JANE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn flow_gets_half_of_the_limit_or_of_the_rest() {
        let (limit, eve, jane) =
            (FairLimit::new(12), Flow::of_address(EVE), Flow::of_address(JANE));
        let take = |flow| std::iter::from_fn(|| limit.try_acquire(flow, 1)).collect::<Vec<_>>();
        let eves = take(eve);
        assert_eq!(eves.len(), 6);
        let janes = take(jane);
        assert_eq!(janes.len(), 3);
        drop(eves);
        assert_eq!(take(jane).len(), 3, "jane has six now");
        drop(janes);
        assert!(limit.used.lock().is_empty());
    }

    #[test]
    fn names_and_addresses_that_a_client_can_choose_are_one_flow() {
        let flow = |name: &str| Flow::of_user(&User::new(name, &[]));
        assert_eq!(flow("system:serviceaccount:shop:a"), flow("system:serviceaccount:shop:b"));
        assert_ne!(flow("system:serviceaccount:shop:a"), flow("system:serviceaccount:api:a"));
        assert_ne!(flow("system:serviceaccount:shop:a"), flow("shop"));
        let flow = |address: &str| Flow::of_address(address.parse().unwrap());
        assert_eq!(flow("fd00::1:2:3:4"), flow("fd00::5:6:7:8"));
        assert_eq!(flow("::ffff:10.0.0.1"), flow("10.0.0.1"));
        assert_ne!(flow("10.0.0.1"), flow("10.0.0.2"));
    }

    #[tokio::test]
    async fn reviews_of_a_flow_wait_and_then_are_refused() {
        let (limit, eve, jane) =
            (ReviewLimit::new(2, 2), Flow::of_address(EVE), Flow::of_address(JANE));
        let mut running = Box::pin(limit.run(eve, pending::<Result<(), _>>()));
        assert!(running.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(limit.run(eve, async { Ok(()) }));
        assert!(waiting.as_mut().now_or_never().is_none(), "one runs already");
        let refused = limit.run(eve, async { Ok(()) }).now_or_never();
        assert!(matches!(refused, Some(Err(ReviewError::TooMany))));
        let other = limit.run(jane, async { Ok(()) }).now_or_never();
        assert!(matches!(other, Some(Ok(()))), "another flow has room");
        drop(running);
        assert!(matches!(waiting.now_or_never(), Some(Ok(()))));
    }

    #[tokio::test(start_paused = true)]
    async fn rate_of_reviews_is_limited_only_if_there_is_one() {
        let (rate, eve) = (Rate { per_second: 1, burst: 3 }, Flow::of_address(EVE));
        let review_all = |limit: ReviewLimit| {
            let reviews =
                (0..10).map(|_| limit.run(eve, async { Ok::<_, ReviewError>(()) }).now_or_never());
            reviews.filter(|outcome| matches!(outcome, Some(Ok(())))).count()
        };
        assert_eq!(review_all(ReviewLimit::new(2, 2)), 10);
        assert_eq!(review_all(ReviewLimit::new(2, 2).with_rate(rate, rate)), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_is_limited_per_client_and_in_total() {
        let each = Rate { per_second: 1, burst: 2 };
        let limit = RateLimit::new(Rate { per_second: 2, burst: 3 }, each);
        let take = |client| {
            let flow = Flow::of_address(client);
            std::iter::from_fn(|| limit.take(flow).then_some(())).count()
        };
        assert_eq!((take(EVE), take(JANE)), (2, 1));
        advance(Duration::from_secs(1)).await;
        assert_eq!((take(EVE), take(JANE)), (1, 1));
        advance(Duration::from_secs(10)).await;
        assert_eq!(take(JANE), 2);
        // The bucket of JANE, and that of all flows.
        assert_eq!(limit.full_at.lock().len(), 2, "full buckets are dropped");
    }
}
