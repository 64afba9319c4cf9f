//! The data of the board, with the updates that it gets and the changes that its readers get.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::{AutoscalerApi, HpaKey};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    Controller, Entry, Identity, OutageSummary, Row, SourceState, rows::Rows, sources::Sources,
};
use crate::past::AutoscalerStatusWriter;

/// An autoscaler as a list or a watch returned it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedAutoscaler {
    pub(crate) id: Identity,
    /// The error of decoding the object, if it could not be decoded.
    pub(crate) hpa: Result<HorizontalPodAutoscaler, String>,
    pub(crate) controller: Controller,
}

/// A change of the autoscalers of one API.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new list. Autoscalers that it lacks were deleted.
    Replace(AutoscalerApi, Vec<ObservedAutoscaler>),
    Apply(Box<ObservedAutoscaler>),
    Delete(Identity),
}

/// The changes of the list since a reader's last version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changes {
    /// Whether `rows` has all rows. The reader then discards its previous rows.
    pub(crate) reset: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) deleted: Vec<Identity>,
    /// As [`Board::is_synced`](super::Board::is_synced).
    pub(crate) synced: bool,
    /// As [`Board::problems`](super::Board::problems).
    pub(crate) problems: Vec<String>,
    /// Whether `problems` says that the controller makes no decisions.
    pub(crate) inactive: bool,
    /// `None` if everything can be read.
    pub(crate) outage: Option<OutageSummary>,
    /// The time of this message, by the clock that its other times refer to.
    pub(crate) now: Timestamp,
    #[serde(skip)]
    pub(crate) version: u64,
}

#[derive(Default)]
pub(super) struct BoardState {
    pub(super) rows: Rows,
    pub(super) sources: Sources,
    /// A sentence about a controller that makes no decisions, if there is one.
    pub(super) inactivity: Option<String>,
    /// See [`ControllerActivity::idle`](crate::ControllerActivity::idle).
    pub(super) idle: BTreeMap<HpaKey, String>,
    /// See [`ControllerActivity::status_problems`](crate::ControllerActivity::status_problems).
    pub(super) status_problems: Vec<String>,
}

impl BoardState {
    pub(super) fn update(&mut self, update: Update, now: Timestamp) {
        match update {
            Update::Apply(observed) => self.rows.apply(*observed, now),
            Update::Delete(id) => self.rows.delete(&id),
            Update::Replace(api, all) => {
                let listed: HashSet<_> = all.iter().map(|one| one.id.clone()).collect();
                let previous: Vec<_> =
                    self.rows.entries.keys().filter(|id| id.api == api).cloned().collect();
                for id in previous.iter().filter(|id| !listed.contains(*id)) {
                    self.rows.delete(id);
                }
                for observed in all {
                    self.rows.apply(observed, now);
                }
                self.sources.set(api, SourceState::Synced);
            }
        }
        self.rows.refresh_changed_targets(now);
    }

    /// See [`Board::changes_since`](super::Board::changes_since).
    pub(super) fn changes_since(&self, version: u64, now: Timestamp) -> Changes {
        let reset = version == 0 || version < self.rows.last_dropped_deletion;
        let rows = self.rows.entries.values().filter(|entry| reset || entry.version > version);
        let is_missed = |(at, id): &&(u64, Identity)| {
            !reset && *at > version && !self.rows.entries.contains_key(id)
        };
        let deleted = self.rows.deleted.iter().filter(is_missed);
        Changes {
            reset,
            rows: rows.map(|entry| entry.row.clone()).collect(),
            deleted: deleted.map(|(_, id)| id.clone()).collect(),
            synced: self.sources.is_synced(),
            problems: self.problems(),
            inactive: self.is_inactive(),
            outage: self.outage_summary(),
            now,
            version: self.rows.version,
        }
    }

    /// See [`Board::status_writers`](super::Board::status_writers).
    pub(super) fn status_writers(&self) -> Vec<AutoscalerStatusWriter> {
        let writers = self.rows.entries.iter().filter_map(|(id, entry)| {
            let Controller { name: manager, at } = &entry.controller;
            Some(AutoscalerStatusWriter {
                api: id.api,
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                manager: manager.clone()?,
                at: *at,
            })
        });
        writers.collect()
    }

    /// See [`Board::others_of_controller`](super::Board::others_of_controller).
    pub(super) fn others_of_controller(
        &self,
        id: &Identity,
    ) -> Vec<(String, Arc<HorizontalPodAutoscaler>)> {
        let own = self.rows.entries.get(id).and_then(|entry| entry.controller.name.as_ref());
        let is_other = |other: &Identity, entry: &Entry| {
            let has_controller = own.is_some() && entry.controller.name.as_ref() == own;
            let is_handled = other.api == id.api || has_controller;
            other.namespace == id.namespace && other != id && is_handled
        };
        let others = self.rows.entries.iter().filter(|(other, entry)| is_other(other, entry));
        others
            .filter_map(|(other, entry)| {
                Some((HpaKey::from(other).to_string(), entry.hpa.clone()?))
            })
            .collect()
    }

    pub(super) fn idle_clause(&self, id: &Identity) -> Option<String> {
        if self.is_inactive() { self.idle.get(&HpaKey::from(id)).cloned() } else { None }
    }

    pub(super) fn outage_summary(&self) -> Option<OutageSummary> {
        self.sources.outage_summary(!self.rows.entries.is_empty())
    }

    /// During an outage, the leases can't be read, so the controller doesn't count as inactive.
    pub(super) fn is_inactive(&self) -> bool {
        self.inactivity.is_some() && !self.sources.is_down()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let failed_writes = self.rows.failed_status_writes();
        let failed_writes = failed_writes.map(|failed| format!("Statuses may be old: {failed}."));
        let of_controllers = self.inactivity.iter().cloned().chain(failed_writes);
        let of_controllers = of_controllers.chain(self.status_problems.iter().cloned());
        let of_controllers = of_controllers.filter(|_| !self.sources.is_down());
        let outages = self.sources.outages().into_iter();
        let outages = outages.map(|outage| format!("{}.", outage.text));
        of_controllers.chain(outages).chain(self.sources.visible_notes()).collect()
    }
}
