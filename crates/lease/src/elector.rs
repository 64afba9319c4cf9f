//! The task that reads, watches and writes the lease.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    clock::{Clock, Instants},
    decision::{LeaseObservation, LeaseRecord, Step, decide},
    election::{Election, ElectionConfig, LeaseHooks},
    leadership::{ElectionState, Predecessor},
    lease::{ElectionLease, LeaseTime},
    record::annotate,
    request_error::RequestError,
};

/// The minimum time between two log lines about failures, unless a request succeeds between them.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

type LeaseWatch = BoxStream<'static, kube::Result<WatchEvent<ElectionLease>>>;

pub(crate) struct Elector {
    api: Api<ElectionLease>,
    config: ElectionConfig,
    clock: Arc<dyn Clock>,
    state: watch::Sender<ElectionState>,
    observation: LeaseObservation,
    /// The lease as last read, written or watched. Writes carry its resource version.
    lease: Option<ElectionLease>,
    /// The last known resource version, even if the lease has been deleted since.
    last_version: Option<String>,
    /// The last lease holder other than this instance. `None` also if the lease had no renew time,
    /// or one that [`LeaseTime::timestamp`] can't represent.
    predecessor: Option<Predecessor>,
    hooks: Arc<dyn LeaseHooks>,
    /// Started when a GET finds the lease. Ends if the watch fails or this instance acquires or
    /// renews the lease.
    watch: Option<LeaseWatch>,
    /// The time of the last log line about a failed request. `None` if the last request succeeded.
    failure_logged_at: Option<Instant>,
}

/// The outcome of an acquisition or a renewal.
enum LeaseWrite {
    /// This instance holds the lease.
    Done,
    /// Another client wrote or deleted the lease first.
    Conflict,
    /// The request failed. The API server may have applied it.
    Failed,
}

impl Elector {
    /// An elector, and the receiver of its state.
    pub(crate) fn new(
        election: &Election,
        clock: Arc<dyn Clock>,
        hooks: Arc<dyn LeaseHooks>,
    ) -> (Self, watch::Receiver<ElectionState>) {
        let Election { client, config } = election;
        let (state, receiver) = watch::channel(ElectionState::Standby);
        let elector = Self {
            api: Api::namespaced(client.clone(), &config.namespace),
            config: config.clone(),
            clock,
            state,
            observation: LeaseObservation::default(),
            lease: None,
            last_version: None,
            predecessor: None,
            hooks,
            watch: None,
            failure_logged_at: None,
        };
        (elector, receiver)
    }

    /// Runs until the leadership is lost or `release` is cancelled, then releases the lease if this
    /// instance is still the leader. After the renew deadline, it writes nothing: the lease must
    /// expire.
    pub(crate) async fn run(mut self, release: CancellationToken) {
        while !release.is_cancelled() && !self.read_lease().await {
            self.wait(self.next_poll(), &release).await;
        }
        while !release.is_cancelled() {
            let identity = &self.config.identity;
            match decide(&self.observation, identity, self.leader_until(), Instant::now()) {
                Step::Lost => {
                    warn!(lease = %self.lease_name(), "lost the leader lease");
                    break;
                }
                Step::Wait(expiry) => self.wait_for_expiry(expiry, &release).await,
                step @ (Step::Create | Step::Acquire | Step::Renew) => {
                    self.acquire_or_renew(step, &release).await;
                }
            }
        }
        self.release().await;
        self.state.send_replace(ElectionState::Ended);
    }

    fn lease_name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// The end of our leadership unless the lease is renewed; `None` if we are not the leader.
    fn leader_until(&self) -> Option<Instant> {
        self.state.borrow().leader_until(&*self.clock)
    }

    /// The time of the next poll: after 1 to 2.2 retry periods, as in client-go, because standbys
    /// must not act at the same time.
    fn next_poll(&self) -> Instant {
        Instant::now() + self.config.retry_period.mul_f64(1.0 + 1.2 * fastrand::f64())
    }

    /// Waits until a time, but not beyond the end of our leadership or the release.
    async fn wait(&mut self, until: Instant, release: &CancellationToken) {
        let until = self.leader_until().map_or(until, |end| end.min(until));
        tokio::select! {
            () = sleep_until(until) => {}
            () = release.cancelled() => {}
        }
    }

    /// Waits until the watch reports an event or its end, the lease expires, the next poll has read
    /// the lease, or `release` is cancelled.
    async fn wait_for_expiry(&mut self, expiry: Instant, release: &CancellationToken) {
        let poll = self.next_poll();
        let event = async {
            match &mut self.watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = event => event,
            () = sleep_until(poll.min(expiry)) => {
                // At the expiry, no poll is needed: the write conflicts with an unobserved renewal.
                if poll < expiry {
                    self.read_lease().await;
                }
                return;
            }
            () = release.cancelled() => return,
        };
        match event {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.observe(Some(lease));
            }
            Some(Ok(WatchEvent::Deleted(_))) => self.observe(None),
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            // The next poll starts another watch.
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => self.watch = None,
        }
    }

    /// Writes the lease. Then waits until the next write is due, unless another client wrote the
    /// lease first.
    async fn acquire_or_renew(&mut self, step: Step, release: &CancellationToken) {
        let known_version = self.resource_version();
        // Counts from the start of the request: a slow one must not delay the next renewal.
        let next_renewal = Instant::now() + self.config.retry_period;
        match self.write_lease(step).await {
            LeaseWrite::Done => return self.wait(next_renewal, release).await,
            LeaseWrite::Conflict => {
                if self.read_lease().await && self.resource_version() != known_version {
                    // Another client wrote or deleted the lease: decide again at once.
                    return;
                }
            }
            LeaseWrite::Failed => {}
        }
        let is_leader = self.leader_until().is_some();
        self.wait(if is_leader { next_renewal } else { self.next_poll() }, release).await;
    }

    /// The resource version of the lease as last read; `None` if there is no lease.
    fn resource_version(&self) -> Option<String> {
        self.lease.as_ref().and_then(ResourceExt::resource_version)
    }

    /// The timeout of a request: half the renew deadline, which leaves time to repeat a renewal,
    /// but not beyond the end of our leadership.
    fn request_timeout(&self) -> Duration {
        let limit = self.config.renew_deadline / 2;
        self.leader_until()
            .map_or(limit, |until| limit.min(until.saturating_duration_since(Instant::now())))
    }

    /// Reads the lease, and watches it from then on. Returns `false` if the request failed. A
    /// missing lease is a success.
    async fn read_lease(&mut self) -> bool {
        let sent = Instant::now();
        let response = timeout(self.request_timeout(), self.api.get_opt(&self.config.name)).await;
        let result = response.map_err(|_| RequestError::TimedOut);
        match result.and_then(|lease| lease.map_err(RequestError::from)) {
            Ok(lease) => {
                self.record_success();
                self.report_version(lease.as_ref(), sent);
                self.observe(lease);
                self.watch_lease();
                true
            }
            Err(error) => {
                self.record_failure(&error);
                false
            }
        }
    }

    /// Watches the lease from the resource version that was read, unless a watch is running.
    fn watch_lease(&mut self) {
        let Some(lease) = self.lease.as_ref().filter(|_| self.watch.is_none()) else { return };
        let parameters =
            WatchParams::default().fields(&format!("metadata.name={}", self.config.name));
        let (api, version) = (self.api.clone(), lease.resource_version().unwrap_or_default());
        let watch = async move { api.watch(&parameters, &version).await.map(StreamExt::boxed) };
        self.watch = Some(stream::once(watch).try_flatten().boxed());
    }

    /// Reports the lease's version to the hook, which detects that the API server was rewound, if
    /// the version before the request is known.
    fn report_version(&self, lease: Option<&ElectionLease>, sent: Instant) {
        let version = lease.and_then(ResourceExt::resource_version);
        if let (Some(last), Some(version)) = (&self.last_version, version) {
            self.hooks.on_lease_version(last, &version, sent);
        }
    }

    /// Stores the lease as read, written or watched. Reports a new holder to the hooks.
    fn observe(&mut self, lease: Option<ElectionLease>) {
        let identity = &self.config.identity;
        let record = lease.as_ref().map(LeaseRecord::from);
        if let Some(other) = record.as_ref().filter(|record| record.holder != *identity) {
            let annotations = lease.as_ref().and_then(|lease| lease.metadata.annotations.clone());
            let annotations = annotations.unwrap_or_default();
            let last_holder = self.observation.record().map(|record| &record.holder);
            if last_holder != Some(&other.holder) && !other.holder.is_empty() {
                info!(lease = %self.lease_name(), holder = other.holder, "new leader elected");
                self.hooks.on_new_holder(&other.holder, &annotations);
            }
            let renewed = other.renewed.as_ref().and_then(LeaseTime::timestamp);
            self.predecessor = renewed.map(|renewed| Predecessor { renewed, annotations });
        }
        self.observation.update(record, identity, Instant::now());
        self.lease = lease;
        self.last_version = self.resource_version().or(self.last_version.take());
    }

    /// The lease with this instance as its holder, acquired or renewed now.
    fn our_lease(&self) -> ElectionLease {
        let now = LeaseTime::from(self.clock.now());
        let identity = &self.config.identity;
        let (acquired, transitions) = match self.observation.record() {
            Some(ours) if ours.holder == *identity => (ours.acquired.clone(), ours.transitions),
            Some(other) => (None, other.transitions.saturating_add(1)),
            None => (None, 0),
        };
        let record = LeaseRecord {
            holder: identity.clone(),
            duration: self.config.lease_duration,
            acquired: acquired.or_else(|| Some(now.clone())),
            renewed: Some(now),
            transitions,
        };
        self.lease_with(&record)
    }

    /// The lease as last read, or a new one, with a record and the annotations of the hooks.
    fn lease_with(&self, record: &LeaseRecord) -> ElectionLease {
        let mut lease =
            self.lease.clone().unwrap_or_else(|| ElectionLease::named(&self.config.name));
        record.write_to(&mut lease);
        annotate(&mut lease, self.hooks.annotations());
        lease
    }

    /// Acquires or renews the lease. The leadership counts from the start of the request, which is
    /// before any other instance observes the renewal.
    async fn write_lease(&mut self, step: Step) -> LeaseWrite {
        let (sent, renewed) = (Instant::now(), self.clock.instants());
        let (lease, parameters) = (self.our_lease(), PostParams::default());
        let is_new = step == Step::Create;
        let request = async {
            if is_new {
                self.api.create(&parameters, &lease).await
            } else {
                self.api.replace(&self.config.name, &parameters, &lease).await
            }
        };
        let error = match timeout(self.request_timeout(), request).await {
            Ok(Ok(lease)) => {
                self.record_success();
                self.report_version(Some(&lease), sent);
                self.observe(Some(lease));
                self.extend_leadership(sent, renewed);
                return LeaseWrite::Done;
            }
            Ok(Err(error)) => RequestError::from(error),
            Err(_) => RequestError::TimedOut,
        };
        // The response to a create is 404 if the namespace doesn't exist.
        let conflicts = if is_new { &[409][..] } else { &[404, 409] };
        if matches!(&error, RequestError::Refused(status) if conflicts.contains(&status.code)) {
            debug!(lease = %self.lease_name(), %error, "another client wrote the lease");
            return LeaseWrite::Conflict;
        }
        self.record_failure(&error);
        LeaseWrite::Failed
    }

    /// Extends the leadership to the renew deadline, counted from when the renewal was sent: `sent`
    /// is that time by tokio's clock, and `renewed` by `self.clock`.
    fn extend_leadership(&mut self, sent: Instant, renewed: Instants) {
        self.watch = None;
        if self.leader_until().is_none() {
            let identity = &self.config.identity;
            info!(lease = %self.lease_name(), identity, "acquired the leader lease");
        }
        let until = sent + self.config.renew_deadline;
        let predecessor = self.predecessor.clone();
        self.state.send_replace(ElectionState::Leading { until, renewed, predecessor });
    }

    /// Releases the lease if we are the leader. The next leader then needn't wait for its expiry.
    async fn release(&mut self) {
        let is_leader = self.leader_until().is_some_and(|until| Instant::now() < until);
        let is_ours = |record: &&LeaseRecord| is_leader && record.holder == self.config.identity;
        let Some(record) = self.observation.record().filter(is_ours) else { return };
        let now = Some(LeaseTime::from(self.clock.now()));
        let released = LeaseRecord {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: now.clone(),
            renewed: now,
            ..record.clone()
        };
        let (lease, parameters) = (self.lease_with(&released), PostParams::default());
        let request = self.api.replace(&self.config.name, &parameters, &lease);
        match timeout(self.request_timeout(), request).await {
            Ok(Ok(_)) => info!(lease = %self.lease_name(), "released the leader lease"),
            Ok(Err(error)) => self.record_failure(&error.into()),
            Err(_) => self.record_failure(&RequestError::TimedOut),
        }
    }

    fn record_success(&mut self) {
        if self.failure_logged_at.take().is_some() {
            self.hooks.on_failing_since(None);
            info!(lease = %self.lease_name(), "requests for the leader lease succeed again");
        }
    }

    /// Reports the first of consecutive failures to the hooks. Logs the first, and then one a
    /// minute: otherwise a standby that can't read the lease would look healthy.
    fn record_failure(&mut self, error: &RequestError) {
        let now = Instant::now();
        if self.failure_logged_at.is_none() {
            self.hooks.on_failing_since(Some(now));
        }
        if self.failure_logged_at.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL) {
            self.failure_logged_at = Some(now);
            warn!(lease = %self.lease_name(), %error, "failed to read or write the leader lease");
        }
    }
}
