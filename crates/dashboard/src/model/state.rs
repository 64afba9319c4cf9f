//! The data of the board, with the updates that it gets and the changes that its readers get.

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
    /// As [`Board::is_reading`](super::Board::is_reading).
    pub(crate) is_reading: bool,
    /// As [`Board::problems`](super::Board::problems).
    pub(crate) problems: Vec<String>,
    /// Whether `problems` says that the controller makes no decisions. `None` until the activity of
    /// the controllers has been read.
    pub(crate) inactive: Option<bool>,
    /// `None` if everything can be read.
    pub(crate) outage: Option<OutageSummary>,
    /// The time of this message, by the clock that its other times refer to.
    pub(crate) now: Timestamp,
    #[serde(skip)]
    pub(crate) version: u64,
}

/// The state that a [`Board`](super::Board) shares between pages.
#[derive(Default)]
pub(super) struct BoardState {
    pub(super) rows: Rows,
    pub(super) sources: Sources,
    /// The time of the last successful probe of the API server.
    pub(super) read_at: Option<Timestamp>,
    /// Whether the first read of the controllers' activity has not ended.
    pub(super) awaits_activity: bool,
}

impl BoardState {
    pub(super) fn outage_summary(&self) -> Option<OutageSummary> {
        self.sources.outage_summary(self.read_at, !self.rows.entries.is_empty())
    }

    /// During an outage, the leases can't be read, so the controller doesn't count as inactive.
    pub(super) fn is_inactive(&self) -> bool {
        self.rows.activity.inactivity.is_some() && !self.sources.is_down()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        if !self.sources.is_down() {
            let failed_writes = self.rows.failed_status_writes();
            problems.extend(self.rows.activity.inactivity.clone());
            problems.extend(failed_writes.map(|failed| format!("Statuses may be old: {failed}.")));
            let wrong_clock = self.rows.activity.wrong_clock.as_ref();
            problems.extend(wrong_clock.map(|clock| clock.sentence.clone()));
            problems.extend_from_slice(&self.rows.activity.status_problems);
        }
        let outages = self.sources.outages().into_iter();
        problems.extend(outages.map(|outage| format!("{}.", outage.text)));
        problems.extend(self.sources.visible_notes());
        problems
    }
}
