//! One autoscaler as JSON.

use std::sync::Arc;

use hpa_calc::{Report, api::Condition, report::ReportLines};
use hpa_controller::forecast::ForecastView;
use jiff::Timestamp;
use serde::Serialize;

use super::events::EventLine;
use crate::{
    model::{Controller, Entry, Identity, Row, Series, Unread},
    past::PastDecision,
};

/// The page shows at most this many events.
const MAX_EVENTS: usize = 50;

/// The page shows at most this many earlier decisions.
const MAX_DECISIONS: usize = 50;

/// The page of an autoscaler.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    id: Identity,
    /// The clock that all times refer to.
    now: Timestamp,
    /// Whether the first lists are complete, or have failed. If they are complete, an absent `row`
    /// means that the autoscaler doesn't exist.
    is_known: bool,
    /// Whether the list of its API is complete and has its namespace. Otherwise, it may lack the
    /// autoscaler.
    is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
    words: ReportLines,
    controller: Controller,
    /// The conditions that the controller stored last.
    conditions: Vec<Condition>,
    /// Newest first.
    events: Vec<EventLine>,
    /// The number of older events.
    more_events: usize,
    series: Series,
    /// Earlier decisions, newest first.
    decisions: Vec<PastDecision>,
    /// The number of older decisions.
    more_decisions: usize,
    /// The last decision that the controller is known to have made, if that is long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_decision: Option<Timestamp>,
    /// The forecasts of its metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forecasts: Vec<ForecastView>,
    /// Sentences about lists and watches that fail.
    problems: Vec<String>,
    /// Sentences about missing data, with the reason.
    missing: Vec<String>,
    /// What can't be read of the cluster, if anything.
    unread: Option<Unread>,
    #[serde(skip)]
    pub(super) reads: Reads,
}

/// How the requests for a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Complete,
    /// Some failed, or the decision has an error.
    Failed,
    /// The view is of the time before an outage of the API server.
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
            series: Series::default(),
            decisions: Vec::new(),
            more_decisions: 0,
            last_decision: None,
            forecasts: Vec::new(),
            problems,
            missing: Vec::new(),
            unread: None,
            reads: Reads::Complete,
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

    pub(super) fn with_unread(self, unread: Option<Unread>) -> Self {
        Self { unread, ..self }
    }

    pub(super) fn with_reads(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// The view of the time before an outage.
    pub(super) fn in_outage(
        self,
        problems: Vec<String>,
        unread: Option<Unread>,
        now: Timestamp,
    ) -> Self {
        Self { problems, unread, now, reads: Reads::BeforeOutage, ..self }
    }

    pub(super) fn to_json(&self) -> String {
        // All keys of maps are strings, so this doesn't fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
