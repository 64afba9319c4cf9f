//! The data of the page of one autoscaler, as JSON.

use std::sync::Arc;

use hpa_calc::{Report, api::Condition, report::ReportLines};
use hpa_controller::{HpaKey, forecast::ForecastView, k8s::StatusController};
use jiff::Timestamp;
use serde::Serialize;

use super::events::EventLine;
use crate::{
    json::to_json,
    model::{Entry, OutageSummary, Row, Series},
    past::PastDecision,
};

/// The page shows at most this many events.
const MAX_EVENTS: usize = 50;

/// The page shows at most this many earlier decisions.
const MAX_DECISIONS: usize = 50;

/// The contents of the page of an autoscaler.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub(super) id: HpaKey,
    /// The time of the view, by the clock that its other times refer to.
    pub(super) now: Timestamp,
    /// Whether a first list is still running. Until it ends, an absent `row` says nothing; after
    /// that, see `is_complete`.
    pub(super) is_reading: bool,
    /// Whether the list of the autoscaler's API is complete and includes its namespace. If not, the
    /// list may lack the autoscaler.
    pub(super) is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) row: Option<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<Report>,
    /// The report in sentences.
    pub(super) report_lines: ReportLines,
    pub(super) controller: StatusController,
    /// The conditions that the controller stored last.
    pub(super) conditions: Vec<Condition>,
    /// Newest first.
    pub(super) events: Vec<EventLine>,
    /// The number of older events.
    pub(super) older_event_count: usize,
    /// Whether the events have been read and are still watched.
    pub(super) are_events_known: bool,
    pub(super) series: Series,
    /// Earlier decisions, newest first.
    pub(super) decisions: Vec<PastDecision>,
    /// The number of older decisions.
    pub(super) older_decision_count: usize,
    /// The time of the controller's last known decision, if that is long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_decision: Option<Timestamp>,
    /// The forecasts of the load that the metrics measure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) forecasts: Vec<ForecastView>,
    /// Sentences about inactive controllers, outages, missing rights, and other autoscalers of the
    /// same target.
    pub(super) problems: Vec<String>,
    /// Sentences about data that the page lacks, with the reason.
    pub(super) missing: Vec<String>,
    /// `None` if everything can be read.
    pub(super) outage: Option<OutageSummary>,
    #[serde(skip)]
    pub(super) read_outcome: ReadOutcome,
}

/// The outcome of the requests for a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    #[default]
    Complete,
    /// Some requests failed, or the decision has an error.
    Failed,
    /// The API server can't be read: the view is from before the outage, or has only what the list
    /// has.
    BeforeOutage,
}

impl View {
    /// A view without data. If it isn't changed, it says that the autoscaler doesn't exist.
    pub(super) fn empty(id: HpaKey, now: Timestamp) -> Self {
        Self { id, now, is_complete: true, ..Self::default() }
    }

    pub(super) fn new(
        entry: Entry,
        report: Option<Report>,
        events: impl Iterator<Item = Arc<EventLine>>,
        now: Timestamp,
    ) -> Self {
        let Entry { mut row, hpa, controller, series, .. } = entry;
        let conditions = hpa.map(|hpa| hpa.status.conditions.clone()).unwrap_or_default();
        if let Some(report) = &report {
            row.state = row.state.after(report);
        }
        let mut events: Vec<_> = events.map(|event| (*event).clone()).collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        let older_event_count = events.len().saturating_sub(MAX_EVENTS);
        events.truncate(MAX_EVENTS);
        let report_lines = report.as_ref().map(Report::lines).unwrap_or_default();
        let view = Self::empty(row.id.clone(), now);
        Self {
            row: Some(row),
            report,
            report_lines,
            controller,
            conditions,
            events,
            older_event_count,
            series,
            ..view
        }
    }

    /// Adds earlier decisions, oldest first.
    pub(super) fn with_decisions(self, mut decisions: Vec<PastDecision>) -> Self {
        decisions.reverse();
        let older_decision_count = decisions.len().saturating_sub(MAX_DECISIONS);
        decisions.truncate(MAX_DECISIONS);
        Self { decisions, older_decision_count, ..self }
    }

    pub(super) fn to_json(&self) -> String {
        // Serialization can't fail: all keys of maps are strings.
        to_json(self).unwrap_or_default()
    }
}
