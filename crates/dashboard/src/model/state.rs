//! The data of the board, with the updates that it gets and the changes that its readers get.

use std::collections::BTreeMap;

use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::{AutoscalerApi, HpaKey, k8s::StatusController};
use jiff::Timestamp;
use serde::Serialize;

use super::{OutageSummary, Row, rows::Rows, sources::Sources};

/// An autoscaler as a list or a watch returned it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedAutoscaler {
    pub(crate) id: HpaKey,
    /// The error of decoding the object, if it could not be decoded.
    pub(crate) hpa: Result<HorizontalPodAutoscaler, String>,
    pub(crate) controller: StatusController,
}

/// A change of the autoscalers of one API.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new list. Autoscalers that it lacks were deleted.
    Replace(AutoscalerApi, Vec<ObservedAutoscaler>),
    Apply(Box<ObservedAutoscaler>),
    Delete(HpaKey),
}

/// The changes of the list since a reader's last version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changes {
    /// Whether `rows` has all rows. The reader then discards its previous rows.
    pub(crate) reset: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) deleted: Vec<HpaKey>,
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
    pub(super) fn outage_summary(&self) -> Option<OutageSummary> {
        self.sources.outage_summary(!self.rows.entries.is_empty())
    }

    /// During an outage, the leases can't be read, so the controller doesn't count as inactive.
    pub(super) fn is_inactive(&self) -> bool {
        self.inactivity.is_some() && !self.sources.is_down()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        if !self.sources.is_down() {
            let failed_writes = self.rows.failed_status_writes();
            problems.extend(self.inactivity.clone());
            problems.extend(failed_writes.map(|failed| format!("Statuses may be old: {failed}.")));
            problems.extend_from_slice(&self.status_problems);
        }
        let outages = self.sources.outages().into_iter();
        problems.extend(outages.map(|outage| format!("{}.", outage.text)));
        problems.extend(self.sources.visible_notes());
        problems
    }
}
