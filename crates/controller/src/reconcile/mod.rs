//! One reconcile of one autoscaler: read, decide, write the scale, write the status, report.
//!
//! [`Reconciler`] has what all reconciles share. `Attempt` is the state of one reconcile, from the
//! first read to the last write. A file imports only files above it in this table, and files to its
//! left:
//!
//! | file | contents |
//! |---|---|
//! | `observer`, `reconciler`, `worker_slot` | callbacks; what reconciles share |
//! | `attempt`, `status_patch`, `metric_values` | the state; patches and changes of a status |
//! | `read` | reads the target's scale, its pods and the metrics |
//! | `report` | logs, records events |
//! | `write_status` | reads the stored autoscaler and patches its status |
//! | `write_scale` | verifies the decision, premarks a zero, writes the scale |
//! | `decide` | decides, and decides again while the inputs of the decision change |
//! | `dry_run` | decides and compares with the peer, writes nothing |

mod attempt;
mod decide;
mod dry_run;
mod metric_values;
mod observer;
mod read;
mod reconciler;
mod report;
mod status_patch;
mod worker_slot;
mod write_scale;
mod write_status;

use std::sync::Arc;

use tracing::{Instrument, debug};

use self::attempt::{Attempt, MAX_SCALE_WRITES, Outcome};
pub use self::{
    observer::{FinishedReconcile, Observer, ReconcileBeforeStatusWrite},
    reconciler::Reconciler,
    worker_slot::{WorkerSlot, WorkerSlots},
    write_scale::MAX_POD_AGE,
};
use crate::{
    cache::{Autoscaler, ErrorClass, desired_state_eq},
    key::HpaKey,
};

impl Reconciler {
    /// Reconciles an autoscaler without a limit on workers, and again if its spec or annotations
    /// change during the reconcile. In dry run, only compares the decision with the peer's. Does
    /// nothing if the autoscaler is not cached or is left to a peer. Reports failures in the
    /// autoscaler's conditions and events, and in the log.
    pub async fn reconcile(&self, key: &HpaKey) {
        let slot = WorkerSlots::new(1).acquire().await;
        self.reconcile_in(key, &slot).await;
    }

    /// Like [`Reconciler::reconcile`], but occupies a worker slot, except while it waits for
    /// metrics or for slow requests.
    pub async fn reconcile_in(&self, key: &HpaKey, slot: &WorkerSlot) {
        let reconcile = async {
            if self.reconcile_once(key, slot).await {
                // If the spec changes again, the next reconcile handles that.
                self.reconcile_once(key, slot).await;
            }
        };
        reconcile.instrument(key.span()).await;
    }

    /// Returns `true` if the spec or the annotations changed during the reconcile and the decision
    /// was discarded. The caller must reconcile again: if this reconcile's own read updated the
    /// cache, the watch event finds no change and doesn't requeue the key.
    async fn reconcile_once(&self, key: &HpaKey, slot: &WorkerSlot) -> bool {
        let Some(autoscaler) = self.decodable_autoscaler(key).await else { return false };
        let started = self.clock.instants().monotonic;
        let (hpa, settings) = autoscaler.object_with_settings(&self.settings);
        if autoscaler.replace_target(&hpa.spec.scale_target_ref) {
            // The registered selector is the previous target's, and the new target may be
            // unreadable.
            self.selectors.set(key, None);
        }
        if settings.dry_run || self.dry_run {
            autoscaler.peer_writes.ignore_past();
            self.compare(key, &autoscaler, &hpa, slot).await;
            return false;
        }
        self.report_peer_write(key, &autoscaler, &hpa);
        if self.is_left_to_peer(&autoscaler, &settings) {
            debug!("left to the controller that wrote the status");
            // Otherwise, the autoscaler would look stuck.
            let duration = self.elapsed_since(started);
            self.observer.finished(&FinishedReconcile::undecided(key, None, duration));
            return false;
        }
        self.report_invalid_settings(key, &autoscaler, &hpa, &settings);
        let attempt = Attempt {
            reconciler: self,
            key,
            hpa: &hpa,
            autoscaler: &autoscaler,
            settings: &settings,
            started,
            slot,
            latest: None,
            zero_premarked: false,
            scale_write_uncertain: false,
            scale_writes_left: MAX_SCALE_WRITES,
            listed_pods: None,
            owned_pods: None,
        };
        match attempt.run().await {
            Outcome::Finished(finished) => {
                self.observer.finished(&finished);
                false
            }
            Outcome::Superseded => {
                debug!("the autoscaler changed or was deleted during the reconcile");
                !desired_state_eq(&autoscaler.object(), &hpa)
            }
        }
    }

    /// The cached autoscaler, unless its current version can't be decoded. If the watch delivered
    /// an undecodable version, reads it from the API server first: the watch event may have been
    /// corrupted in transit, and full relists back off. If the version that was read can't be
    /// decoded either, reports to the observer that the reconcile has finished with an error.
    async fn decodable_autoscaler(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        let autoscaler = self.autoscalers.get(key)?;
        if !autoscaler.is_undecodable() {
            return Some(autoscaler);
        }
        let started = self.clock.instants().monotonic;
        match self.read_hpa(key).await {
            Ok(latest) => autoscaler.apply_read(latest),
            Err(error) if error.is_not_found() => return None,
            Err(_) => {}
        }
        if !autoscaler.is_undecodable() {
            return Some(autoscaler);
        }
        let (error, duration) = (Some(ErrorClass::Spec), self.elapsed_since(started));
        self.observer.finished(&FinishedReconcile::undecided(key, error, duration));
        None
    }
}
