//! The task that does what is decided about the lease.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use hpa_metrics_client::describe;
use k8s_openapi::api::coordination::v1::Lease;
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

use super::{
    Election, ElectionConfig, Record, Step, View, decide,
    fence::{Predecessor, State},
    identity::random,
    record,
};
use crate::clock::Clock;

/// The changes of the lease.
type Changes = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

/// Takes part in an election.
pub(super) struct Elector {
    api: Api<Lease>,
    config: ElectionConfig,
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
    view: View,
    /// The lease as last seen: what is written is written against its version.
    lease: Option<Lease>,
    /// Of those who held the lease the last who was not us.
    predecessor: Option<Predecessor>,
    /// While standing by, if it could be begun.
    changes: Option<Changes>,
    /// Whether the last request failed.
    is_failing: bool,
}

/// How a write of the lease went.
enum Written {
    /// It is ours.
    Done,
    /// Somebody else wrote or deleted it before.
    Refused,
    /// Nobody knows.
    Failed,
}

impl Elector {
    /// An elector, and what it tells of its state.
    pub(super) fn new(
        election: &Election,
        clock: Arc<dyn Clock>,
    ) -> (Self, watch::Receiver<State>) {
        let Election { client, config } = election;
        let (state, told) = watch::channel(State::Standby);
        let elector = Self {
            api: Api::namespaced(client.clone(), &config.namespace),
            config: config.clone(),
            clock,
            state,
            view: View::default(),
            lease: None,
            predecessor: None,
            changes: None,
            is_failing: false,
        };
        (elector, told)
    }

    /// Takes part until the leadership is lost, or `release` is cancelled: then the lease is released.
    pub(super) async fn run(mut self, release: CancellationToken) {
        while !release.is_cancelled() && !self.read().await {
            self.pause(self.after_retry(), &release).await;
        }
        while !release.is_cancelled() {
            match decide(&self.view, &self.config.identity, self.until(), Instant::now()) {
                Step::Lost => {
                    warn!(lease = %self.name(), "lost the lease: this instance leads no more");
                    break;
                }
                Step::Wait(until) => self.stand_by(until, &release).await,
                step @ (Step::Create | Step::Acquire | Step::Renew) => {
                    self.claim(step, &release).await
                }
            }
        }
        self.release().await;
        self.state.send_replace(State::Ended);
    }

    fn name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// When our leadership ends unless it is renewed.
    fn until(&self) -> Option<Instant> {
        match *self.state.borrow() {
            State::Leading { until, .. } => Some(until),
            State::Standby | State::Ended => None,
        }
    }

    /// When to look again: after one to 2.2 retry periods, as client-go has it, so that standbys do not act as one.
    fn after_retry(&self) -> Instant {
        let extra =
            f64::from(u32::try_from(random() >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        Instant::now() + self.config.retry_period.mul_f64(1.0 + 1.2 * extra)
    }

    /// Waits, but not beyond the end of our leadership.
    async fn pause(&mut self, until: Instant, release: &CancellationToken) {
        let until = self.until().map_or(until, |end| end.min(until));
        tokio::select! {
            () = sleep_until(until) => {}
            () = release.cancelled() => {}
        }
    }

    /// Waits for the lease to change or to expire, and looks at it from time to time.
    async fn stand_by(&mut self, until: Instant, release: &CancellationToken) {
        let look = self.after_retry();
        let change = async {
            match &mut self.changes {
                Some(changes) => changes.next().await,
                None => std::future::pending().await,
            }
        };
        let change = tokio::select! {
            change = change => change,
            () = sleep_until(look.min(until)) => {
                // Once it has expired, the write finds out whether it was renewed unseen.
                if look < until {
                    self.read().await;
                }
                return;
            }
            () = release.cancelled() => return,
        };
        match change {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.observe(Some(lease))
            }
            Some(Ok(WatchEvent::Deleted(_))) => self.observe(None),
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            // The next look begins another.
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => self.changes = None,
        }
    }

    /// Writes the lease, and waits until it is to be done again.
    async fn claim(&mut self, step: Step, release: &CancellationToken) {
        let version =
            |lease: &Option<Lease>| lease.as_ref().and_then(ResourceExt::resource_version);
        let before = version(&self.lease);
        // From when it was sent: after a request that took all its time there is none to lose.
        let period = Instant::now() + self.config.retry_period;
        let next = match self.write(step).await {
            Written::Done => period,
            // Whoever was faster is to be seen before the next step is decided.
            Written::Refused if self.read().await && version(&self.lease) != before => return,
            Written::Refused | Written::Failed if self.until().is_some() => period,
            Written::Refused | Written::Failed => self.after_retry(),
        };
        self.pause(next, release).await;
    }

    /// How long a request may take: not so long that there is no time for another.
    fn patience(&self) -> Duration {
        let patience = self.config.renew_deadline / 2;
        self.until()
            .map_or(patience, |until| patience.min(until.saturating_duration_since(Instant::now())))
    }

    /// Looks at the lease; whether that worked.
    async fn read(&mut self) -> bool {
        match timeout(self.patience(), self.api.get_opt(&self.config.name)).await {
            Ok(Ok(lease)) => {
                self.worked();
                self.observe(lease);
                self.follow();
                true
            }
            Ok(Err(error)) => self.failed(&describe(&error)),
            Err(_) => self.failed("timed out"),
        }
    }

    /// Watches the lease from the version that was read.
    fn follow(&mut self) {
        let Some(lease) = self.lease.as_ref().filter(|_| self.changes.is_none()) else { return };
        let parameters =
            WatchParams::default().fields(&format!("metadata.name={}", self.config.name));
        let (api, version) = (self.api.clone(), lease.resource_version().unwrap_or_default());
        let begun = async move { api.watch(&parameters, &version).await.map(StreamExt::boxed) };
        self.changes = Some(stream::once(begun).try_flatten().boxed());
    }

    fn observe(&mut self, lease: Option<Lease>) {
        let me = &self.config.identity;
        let seen = lease.as_ref().map(record::record);
        let before = self.view.record().map(|record| record.holder.clone());
        if let Some(seen) = seen.as_ref().filter(|seen| seen.holder != *me) {
            if before.as_ref() != Some(&seen.holder) && !seen.holder.is_empty() {
                info!(lease = %self.name(), holder = seen.holder, "another instance leads");
            }
            let predecessor = |renewed| Predecessor { renewed, kept_history: seen.keeps_history };
            self.predecessor = seen.renewed.map(predecessor);
        }
        self.view.observe(seen, me, Instant::now());
        self.lease = lease;
    }

    /// The lease as it is when it is ours from now on, or still.
    fn ours(&self) -> Lease {
        let now = self.clock.now();
        let before = self.view.record();
        let is_ours = before.is_some_and(|record| record.holder == self.config.identity);
        let transitions = before.map_or(0, |record| record.transitions);
        let claim = Record {
            holder: self.config.identity.clone(),
            duration: self.config.lease_duration,
            acquired: before.and_then(|record| record.acquired).filter(|_| is_ours).or(Some(now)),
            renewed: Some(now),
            transitions: if is_ours || before.is_none() {
                transitions
            } else {
                transitions.saturating_add(1)
            },
            keeps_history: self.config.keep_history,
        };
        let mut lease = self.lease.clone().unwrap_or_default();
        lease.metadata.name = Some(self.config.name.clone());
        record::write(&mut lease, &claim);
        lease
    }

    /// Makes the lease ours. The leadership counts from when that was sent: others count from later.
    async fn write(&mut self, step: Step) -> Written {
        let sent = Instant::now();
        let (lease, parameters) = (self.ours(), PostParams::default());
        let patience = self.patience();
        let answer = async {
            match step {
                Step::Create => self.api.create(&parameters, &lease).await,
                _ => self.api.replace(&self.config.name, &parameters, &lease).await,
            }
        };
        match timeout(patience, answer).await {
            Ok(Ok(lease)) => {
                self.worked();
                self.observe(Some(lease));
                self.lead(sent + self.config.renew_deadline);
                Written::Done
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                debug!(lease = %self.name(), error = status.message, "the lease was written by somebody else");
                Written::Refused
            }
            Ok(Err(error)) => {
                self.failed(&describe(&error));
                Written::Failed
            }
            Err(_) => {
                self.failed("timed out");
                Written::Failed
            }
        }
    }

    fn lead(&mut self, until: Instant) {
        self.changes = None;
        if self.until().is_none() {
            info!(lease = %self.name(), identity = self.config.identity, "this instance leads");
        }
        let predecessor = self.predecessor;
        self.state.send_replace(State::Leading { until, predecessor });
    }

    /// Gives the lease back, if we have it: whoever waits need not wait for its end.
    async fn release(&mut self) {
        let leads = self.until().is_some_and(|until| Instant::now() < until);
        let ours = |record: &&Record| record.holder == self.config.identity;
        let Some(before) = self.view.record().filter(ours).filter(|_| leads) else { return };
        let (now, mut lease) = (Some(self.clock.now()), self.lease.clone().unwrap_or_default());
        let (holder, duration) = (String::new(), Duration::from_secs(1));
        let released = Record { holder, duration, acquired: now, renewed: now, ..before.clone() };
        record::write(&mut lease, &released);
        let parameters = PostParams::default();
        let answer = self.api.replace(&self.config.name, &parameters, &lease);
        match timeout(self.patience(), answer).await {
            Ok(Ok(_)) => info!(lease = %self.name(), "released the lease"),
            Ok(Err(error)) => _ = self.failed(&describe(&error)),
            Err(_) => _ = self.failed("timed out"),
        }
    }

    fn worked(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            info!(lease = %self.name(), "the lease can be read and written again");
        }
    }

    /// Logs the first of several failures; `false`.
    fn failed(&mut self, error: &str) -> bool {
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(lease = %self.name(), error, "cannot read or write the lease");
        }
        false
    }
}
