//! Histories that outlive the leader: what the next one needs so that nothing is scaled down early or late.
//!
//! A stabilization window is made of the recommendations of the past; the reference forgets them with the process, and
//! begins with the replicas it finds. Here the leader keeps, behind its decisions, what still matters in a few
//! `ConfigMaps` beside the lease. A recommendation that stays the same is not written again: that it held until the
//! leader's end is what the lease's last renewal says.

mod shard;
mod snapshot;
#[cfg(test)]
mod snapshot_tests;
mod write_schedule;
#[cfg(test)]
mod write_schedule_tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_calc::settings::Settings;
use hpa_metrics_client::describe;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt, api::PostParams};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    cache::Autoscalers,
    clock::Clock,
    key::HpaKey,
    leader_election::{ElectionConfig, Predecessor},
    reconcile::observer::{Observer, Reconciled},
};
use shard::{Encoded, MOST_SHARDS, Shard, decode, encode, name, shards_for};
use snapshot::HistorySnapshot;
use write_schedule::{Snapshot, WriteSchedule, pause};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is tried to read before it is done without, and how long it is waited in between.
const READS: usize = 3;
const READ_PAUSE: Duration = Duration::from_millis(300);

/// Keeps the histories of the autoscalers. As an [`Observer`] it is told what is to be kept; [`HistoryStore::run`] writes it.
pub struct HistoryStore {
    api: Api<ConfigMap>,
    /// How the names of the `ConfigMaps` begin.
    prefix: String,
    settings: Settings,
    autoscalers: Arc<Autoscalers>,
    clock: Arc<dyn Clock>,
    book: Mutex<WriteSchedule>,
    /// There is something to write where there was nothing.
    changed: Notify,
}

impl Observer for HistoryStore {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let Reconciled { key, hpa, conclusion, .. } = reconciled;
        let (status, history) = (&conclusion.status, &conclusion.history);
        let name = key.to_string();
        let entry =
            HistorySnapshot::of(name, &hpa.spec, status, history, &self.settings, self.clock.now());
        let kept = Snapshot { uid: hpa.metadata.uid.clone(), entry };
        if self.book.lock().update(key, kept, Instant::now()) {
            self.changed.notify_one();
        }
    }
}

impl HistoryStore {
    /// One that has nothing yet. `client` must write only while this instance leads.
    pub fn new(
        client: Client,
        election: &ElectionConfig,
        settings: Settings,
        autoscalers: Arc<Autoscalers>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &election.namespace),
            prefix: election.name.clone(),
            settings,
            autoscalers,
            clock,
            book: Mutex::new(WriteSchedule::new(1, Instant::now())),
            changed: Notify::new(),
        }
    }

    /// Gives the autoscalers that are known the histories that the last leader kept. If they cannot be read, those
    /// autoscalers begin anew, as in the reference.
    pub async fn restore(&self, predecessor: Option<Predecessor>) {
        match self.read_all().await {
            Ok(shards) => {
                let restored = self.take_over(shards, predecessor);
                info!(autoscalers = restored, "took over the histories that the last leader kept");
            }
            Err(error) => {
                warn!(
                    error,
                    "cannot read the kept histories: every stabilization window begins anew"
                );
            }
        }
    }

    async fn read_all(&self) -> Result<Vec<(Option<String>, Option<Shard>)>, String> {
        let mut shards: Vec<(Option<String>, Option<Shard>)> = Vec::new();
        let mut count = 1;
        while shards.len() < count {
            let object = self.read(shards.len()).await?;
            let shard = object.as_ref().and_then(decode);
            let of = shard.as_ref().map_or(1, |shard| shard.about.of);
            count = count.max(of.min(MOST_SHARDS));
            shards.push((object.and_then(|object| object.resource_version()), shard));
        }
        Ok(shards)
    }

    async fn read(&self, index: usize) -> Result<Option<ConfigMap>, String> {
        let name = name(&self.prefix, index);
        let mut tries = READS;
        loop {
            tries -= 1;
            let error = match timeout(TIMEOUT, self.api.get_opt(&name)).await {
                Ok(Ok(object)) => return Ok(object),
                Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 => {
                    return Err(status.message);
                }
                Ok(Err(error)) => describe(&error),
                Err(_) => "timed out".to_owned(),
            };
            if tries == 0 {
                return Err(error);
            }
            sleep(READ_PAUSE).await;
        }
    }

    /// Restores what was read; of how many autoscalers.
    fn take_over(
        &self,
        shards: Vec<(Option<String>, Option<Shard>)>,
        predecessor: Option<Predecessor>,
    ) -> usize {
        let now = Instant::now();
        let wall = self.clock.now();
        let mut book = WriteSchedule::new(shards.len().next_power_of_two(), now);
        let mut by_uid = BTreeMap::new();
        for (index, (version, shard)) in shards.into_iter().enumerate() {
            let Some(Shard { about, entries }) = shard else {
                book.found(index, version, Duration::ZERO, now);
                continue;
            };
            let since = wall.duration_since(about.written).unsigned_abs();
            book.found(index, version, pause(entries.len(), 0).saturating_sub(since), now);
            for (uid, entry) in entries {
                let known = by_uid.get(&uid).is_some_and(|(written, _)| *written >= about.written);
                if !known {
                    by_uid.insert(uid, (about.written, entry));
                }
            }
        }
        let mut restored = 0;
        for key in self.autoscalers.keys_where(|_| true) {
            restored += usize::from(self.restore_one(&key, &mut by_uid, &mut book, predecessor));
        }
        let shards = shards_for(self.autoscalers.len());
        if shards > book.shards() {
            book.divide(shards, now);
        }
        *self.book.lock() = book;
        restored
    }

    fn restore_one(
        &self,
        key: &HpaKey,
        by_uid: &mut BTreeMap<String, (Timestamp, HistorySnapshot)>,
        book: &mut WriteSchedule,
        predecessor: Option<Predecessor>,
    ) -> bool {
        let Some(autoscaler) = self.autoscalers.get(key) else { return false };
        let (object, now) = (autoscaler.object(), self.clock.instants());
        let Some((written, entry)) = by_uid.remove(&object.metadata.uid) else { return false };
        // One that kept nothing does not vouch for what is kept.
        let end =
            predecessor.filter(|predecessor| predecessor.kept_history).map(|leader| leader.renewed);
        let held = end.map_or(written, |end| end.max(written));
        let (spec, status) = (&object.spec, &object.status);
        let history = entry.restore(spec, status, &self.settings, held, now.wall);
        debug!(hpa = %key, ?history, "took over the history");
        autoscaler.restore(history, status.desired_replicas, now);
        book.put(key.clone(), Snapshot { uid: object.metadata.uid.clone(), entry });
        true
    }

    /// Writes what is to be kept, until it is told to stop: then the rest.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let next = self.book.lock().next();
            let due = async {
                match next {
                    Some((due, index)) => {
                        sleep_until(due).await;
                        index
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.changed.notified() => {}
                index = due => self.write(index, &mut is_failing).await,
            }
        }
        let rest = self.book.lock().changed();
        for index in rest {
            self.write(index, &mut is_failing).await;
        }
    }

    async fn write(&self, index: usize, is_failing: &mut bool) {
        match self.try_write(index).await {
            Ok(()) if std::mem::take(is_failing) => info!("histories can be kept again"),
            Ok(()) => {}
            Err(error) => {
                self.book.lock().failed(index, Instant::now());
                if !std::mem::replace(is_failing, true) {
                    warn!(error, "cannot write the histories for the next leader; retrying");
                }
            }
        }
    }

    async fn try_write(&self, index: usize) -> Result<(), String> {
        let name = name(&self.prefix, index);
        let (Encoded { data, bytes, .. }, mut version) = self.encoded(index)?;
        let mut is_second = false;
        loop {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                resource_version: version.clone(),
                labels: Some(BTreeMap::from([(
                    "app.kubernetes.io/managed-by".into(),
                    self.prefix.clone(),
                )])),
                ..ObjectMeta::default()
            };
            let object = ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() };
            let parameters = PostParams::default();
            let answer = async {
                match version {
                    Some(_) => self.api.replace(&name, &parameters, &object).await,
                    None => self.api.create(&parameters, &object).await,
                }
            };
            match timeout(TIMEOUT, answer).await {
                Ok(Ok(stored)) => {
                    let version = stored.resource_version();
                    self.book.lock().written(index, version, bytes, Instant::now());
                    return Ok(());
                }
                // Somebody else wrote or deleted it; the leader is right.
                Ok(Err(kube::Error::Api(status)))
                    if matches!(status.code, 404 | 409) && !is_second =>
                {
                    is_second = true;
                    version = self.read(index).await?.and_then(|object| object.resource_version());
                }
                Ok(Err(error)) => return Err(describe(&error)),
                Err(_) => return Err("timed out".to_owned()),
            }
        }
    }

    /// What a shard is to hold, and the version that its object has. Autoscalers that are gone are left out.
    fn encoded(&self, index: usize) -> Result<(Encoded, Option<String>), String> {
        let mut book = self.book.lock();
        let shards = book.shards();
        let Some(part) = book.begin(index) else { return Err("no such shard".to_owned()) };
        part.entries.retain(|key, kept| {
            self.autoscalers.get(key).is_some_and(|known| known.object().metadata.uid == kept.uid)
        });
        let entries = part.entries.values().map(|kept| (kept.uid.as_str(), &kept.entry));
        let encoded =
            encode(shards, self.clock.now(), entries).map_err(|error| error.to_string())?;
        if encoded.left_out > 0 {
            let left_out = encoded.left_out;
            warn!(
                left_out,
                shard = index,
                "a shard of histories is full: the next leader begins some anew"
            );
        }
        Ok((encoded, part.version.clone()))
    }
}
