//! The data of the page of one autoscaler, as JSON.

use std::sync::Arc;

use hpa_calc::{Report, api::Condition, report::ReportLines};
use hpa_controller::forecast::ForecastView;
use jiff::Timestamp;
use serde::Serialize;

use super::events::EventLine;
use crate::{
    model::{Controller, Entry, Identity, OutageSummary, Row, Series},
    past::PastDecision,
};

/// The page shows at most this many events.
const MAX_EVENTS: usize = 50;

/// The page shows at most this many earlier decisions.
const MAX_DECISIONS: usize = 50;

/// What the page of an autoscaler shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    id: Identity,
    /// The time of the view, by the clock that its other times refer to.
    now: Timestamp,
    /// Whether the first list of every API is complete or has failed, or the API server is down.
    /// Before that, an absent `row` doesn't mean that the autoscaler doesn't exist.
    is_known: bool,
    /// Whether the list of the autoscaler's API is complete and includes its namespace. If not, the
    /// list may lack the autoscaler.
    is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
    /// The report in sentences.
    words: ReportLines,
    controller: Controller,
    /// The conditions that the controller stored last.
    conditions: Vec<Condition>,
    /// Newest first.
    events: Vec<EventLine>,
    /// The number of older events.
    more_events: usize,
    /// Whether the events have been read and are still watched.
    are_events_known: bool,
    series: Series,
    /// Earlier decisions, newest first.
    decisions: Vec<PastDecision>,
    /// The number of older decisions.
    more_decisions: usize,
    /// The time of the controller's last known decision, if that is long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_decision: Option<Timestamp>,
    /// The forecasts of the load that the metrics measure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forecasts: Vec<ForecastView>,
    /// Sentences about inactive controllers, outages, missing rights, and other autoscalers of the
    /// same target.
    problems: Vec<String>,
    /// Sentences about data that the page lacks, with the reason.
    missing: Vec<String>,
    /// `None` if everything can be read.
    unread: Option<OutageSummary>,
    #[serde(skip)]
    pub(super) read_outcome: ReadOutcome,
}

/// The outcome of the requests for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Complete,
    /// Some requests failed, or the decision has an error.
    Failed,
    /// The API server can't be read: the view is from before the outage, or has only what the list
    /// has.
    BeforeOutage,
}

impl View {
    /// An autoscaler that doesn't exist or has not been listed yet.
    pub(super) fn absent(
        id: Identity,
        now: Timestamp,
        is_known: bool,
        problems: Vec<String>,
    ) -> Self {
        Self {
            id,
            now,
            is_known,
            is_complete: true,
            row: None,
            report: None,
            words: ReportLines::default(),
            controller: Controller::default(),
            conditions: Vec::new(),
            events: Vec::new(),
            more_events: 0,
            are_events_known: false,
            series: Series::default(),
            decisions: Vec::new(),
            more_decisions: 0,
            last_decision: None,
            forecasts: Vec::new(),
            problems,
            missing: Vec::new(),
            unread: None,
            read_outcome: ReadOutcome::Complete,
        }
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
            row.state = report.state(row.state);
        }
        let mut events: Vec<_> = events.map(|event| (*event).clone()).collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        let more_events = events.len().saturating_sub(MAX_EVENTS);
        events.truncate(MAX_EVENTS);
        let words = report.as_ref().map(Report::lines).unwrap_or_default();
        let id = row.id.clone();
        let view = Self::absent(id, now, true, Vec::new());
        Self {
            row: Some(row),
            report,
            words,
            controller,
            conditions,
            events,
            more_events,
            series,
            ..view
        }
    }

    pub(super) fn with_complete_list(self, is_complete: bool) -> Self {
        Self { is_complete, ..self }
    }

    pub(super) fn with_known_events(self, are_events_known: bool) -> Self {
        Self { are_events_known, ..self }
    }

    pub(super) fn with_decisions(self, mut decisions: Vec<PastDecision>) -> Self {
        decisions.reverse();
        let more_decisions = decisions.len().saturating_sub(MAX_DECISIONS);
        decisions.truncate(MAX_DECISIONS);
        Self { decisions, more_decisions, ..self }
    }

    pub(super) fn with_last_decision(self, last_decision: Option<Timestamp>) -> Self {
        Self { last_decision, ..self }
    }

    pub(super) fn with_forecasts(self, forecasts: Vec<ForecastView>) -> Self {
        Self { forecasts, ..self }
    }

    pub(super) fn with_problems(self, problems: Vec<String>, missing: Vec<String>) -> Self {
        Self { problems, missing, ..self }
    }

    pub(super) fn with_unread(self, unread: Option<OutageSummary>) -> Self {
        Self { unread, ..self }
    }

    pub(super) fn with_read_outcome(self, read_outcome: ReadOutcome) -> Self {
        Self { read_outcome, ..self }
    }

    /// This view, to be shown during an outage: only the problems, the outage and the time are new.
    pub(super) fn in_outage(
        self,
        problems: Vec<String>,
        unread: Option<OutageSummary>,
        now: Timestamp,
    ) -> Self {
        Self { problems, unread, now, read_outcome: ReadOutcome::BeforeOutage, ..self }
    }

    pub(super) fn to_json(&self) -> String {
        // Serialization can't fail: all keys of maps are strings.
        serde_json::to_string(self).unwrap_or_default()
    }
}
