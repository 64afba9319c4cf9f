//! The state of the connection to the API server and of the lists of autoscalers.

use std::collections::BTreeMap;

use hpa_controller::AutoscalerApi;
use jiff::Timestamp;

use super::{Outage, OutageSummary, outage::Connection};

/// The state of the list and watch of an API's autoscalers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    /// The first list is not complete.
    Reading,
    Synced,
    /// The cluster doesn't have the API.
    NotServed,
    /// The list or watch has failed.
    Failed {
        outage: Outage,
        /// Whether the API server gave no usable answer. When an outage of the API server ends,
        /// such a list counts as unread again.
        is_unanswered: bool,
    },
}

/// The connection, and the lists of all APIs.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Sources {
    states: BTreeMap<AutoscalerApi, SourceState>,
    pub(super) connection: Connection,
    /// The only namespace of an API that is watched. If an API is absent, it is all namespaces.
    pub(super) namespaces: BTreeMap<AutoscalerApi, String>,
    /// Sentences about what is not shown of an API.
    pub(super) notes: BTreeMap<AutoscalerApi, String>,
}

impl Sources {
    pub(super) fn new(apis: &[AutoscalerApi]) -> Self {
        let states = apis.iter().map(|api| (*api, SourceState::Reading)).collect();
        Self { states, ..Self::default() }
    }

    pub(super) fn set(&mut self, api: AutoscalerApi, state: SourceState) {
        self.states.insert(api, state);
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.connection, Connection::Down { .. })
    }

    /// Records that the list or watch of an API failed. `text` gets the time of the first failure.
    pub(super) fn fail(
        &mut self,
        api: AutoscalerApi,
        is_unanswered: bool,
        failed_at: Timestamp,
        text: impl FnOnce(Timestamp) -> String,
    ) {
        let since = match self.states.get(&api) {
            Some(SourceState::Failed { outage, .. }) => outage.since,
            _ => failed_at,
        };
        let subject = format!("The list of the autoscalers of {api}");
        let outage = Outage { subject, kind: None, since, text: text(since) };
        self.set(api, SourceState::Failed { outage, is_unanswered });
    }

    /// Records that a request failed that was sent at `sent_at`. `outage` gets the time of the
    /// first such request with a failure of the same kind.
    pub(super) fn mark_down(&mut self, sent_at: Timestamp, outage: impl Fn(Timestamp) -> Outage) {
        let current = outage(sent_at);
        self.connection = match &self.connection {
            Connection::Down { since, outage: last } => {
                let has_same_kind = last.kind == current.kind;
                let outage = if has_same_kind { outage(last.since) } else { current };
                Connection::Down { since: *since, outage }
            }
            _ => Connection::Down { since: sent_at, outage: current },
        };
    }

    /// Whether the list of an API, once it is read, has all autoscalers of a namespace. False if
    /// the list or watch has failed, or if the API server is down.
    pub(super) fn is_complete(&self, api: AutoscalerApi, namespace: &str) -> bool {
        let is_failed = matches!(self.states.get(&api), Some(SourceState::Failed { .. }));
        let watched = self.namespaces.get(&api);
        !self.is_down() && !is_failed && watched.is_none_or(|watched| watched == namespace)
    }

    /// Whether the first list of an API is still running: it is not complete, has not failed, and
    /// the API server is not down. An API that is not served counts as listed.
    pub(super) fn is_reading(&self) -> bool {
        !self.is_down() && self.states.values().any(|source| *source == SourceState::Reading)
    }

    /// Records that the API server answers. Lists that failed without a usable answer count as
    /// unread again.
    pub(super) fn mark_up(&mut self) {
        if self.connection == Connection::Up {
            return;
        }
        self.connection = Connection::Up;
        for source in self.states.values_mut() {
            if let SourceState::Failed { is_unanswered: true, .. } = source {
                *source = SourceState::Reading;
            }
        }
    }

    /// The outage of the API server, or else the outages of the lists. If the autoscalers of
    /// another API are shown, the text of the last outage says so.
    pub(super) fn outages(&self) -> Vec<Outage> {
        if let Connection::Down { outage, .. } = &self.connection {
            return vec![outage.clone()];
        }
        let failed = self.states.values().filter_map(|source| match source {
            SourceState::Failed { outage, .. } => Some(outage.clone()),
            _ => None,
        });
        let mut failed: Vec<_> = failed.collect();
        let mut sources = self.states.iter();
        let synced = sources.find(|(_, source)| **source == SourceState::Synced);
        if let (Some((api, _)), Some(last)) = (synced, failed.last_mut()) {
            last.text = format!("{}. The autoscalers of {api} are shown", last.text);
        }
        failed
    }

    /// Summarizes the outages. `read_at` is the time of the last successful probe of the API
    /// server, and `has_values` whether the page shows autoscalers.
    pub(super) fn outage_summary(
        &self,
        read_at: Option<Timestamp>,
        has_values: bool,
    ) -> Option<OutageSummary> {
        let first = self.outages().iter().map(|outage| outage.since).min()?;
        let since = match self.connection {
            Connection::Down { since, .. } => since,
            _ => first,
        };
        let is_down = self.is_down();
        let may_be_read =
            |source: &SourceState| matches!(source, SourceState::Synced | SourceState::Reading);
        let is_partial = !is_down && self.states.values().any(may_be_read);
        let read_at = if is_down { read_at } else { Some(since) };
        let values_at = read_at.filter(|_| has_values);
        Some(OutageSummary { since, values_at, is_partial, is_server_down: is_down })
    }

    /// The notes about APIs whose autoscalers are shown.
    pub(super) fn visible_notes(&self) -> Vec<String> {
        let is_shown = |api: &AutoscalerApi| self.states.get(api) == Some(&SourceState::Synced);
        let notes = self.notes.iter().filter(|(api, _)| is_shown(api));
        notes.map(|(_, note)| note.clone()).collect()
    }
}
