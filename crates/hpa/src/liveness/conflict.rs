//! Detects that several controllers store statuses.

use std::collections::BTreeMap;

use hpa_controller::k8s::FieldManager;
use jiff::Timestamp;

use super::Leases;
use crate::{listed_autoscalers::ListedAutoscaler, terminal::shorten_names};

/// A field manager, and the autoscalers whose status it stored last.
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// The names of the autoscalers, sorted.
    pub(crate) autoscalers: Vec<String>,
    /// The time of the newest of these writes.
    pub(crate) newest: Option<Timestamp>,
}

impl<'a> Writer<'a> {
    /// The writers of statuses, by name. Each status is its field manager, the time of the write
    /// and the name of the autoscaler.
    pub(crate) fn all(
        statuses: impl IntoIterator<Item = (&'a str, Option<Timestamp>, String)>,
    ) -> Vec<Self> {
        let mut by_manager = BTreeMap::<&str, (Option<Timestamp>, Vec<String>)>::new();
        for (manager, at, name) in statuses {
            let (newest, names) = by_manager.entry(manager).or_default();
            *newest = (*newest).max(at);
            names.push(name);
        }
        let writers = by_manager.into_iter().map(|(manager, (newest, mut autoscalers))| {
            autoscalers.sort_unstable();
            Self { manager, autoscalers, newest }
        });
        writers.collect()
    }

    /// The writers of the statuses of autoscalers.
    pub(crate) fn of_autoscalers(autoscalers: &'a [ListedAutoscaler]) -> Vec<Self> {
        Self::all(autoscalers.iter().filter_map(|one| {
            Some((one.manager.as_deref()?, one.status_stored_at, one.name.clone()))
        }))
    }
}

impl Leases<'_> {
    /// A sentence about the controllers that have stored statuses recently. Without those that have
    /// lost their leases since. `None` if there are not several, or if each is an instance of
    /// hpa-rs with its own namespaces. A status that doesn't change keeps its writer, so an old one
    /// doesn't show that its writer still runs.
    pub(crate) fn describe_conflict(&self, writers: &[Writer<'_>]) -> Option<String> {
        let is_recent = |writer: &&Writer<'_>| {
            self.is_recent_write(writer.newest)
                && !self.no_longer_writes(writer.manager, writer.newest)
        };
        let recent: Vec<_> = writers.iter().filter(is_recent).collect();
        let has_own_namespaces = |writer: &&Writer<'_>| {
            FieldManager::is_hpa_rs(writer.manager) && !self.shares_namespace(writer.manager)
        };
        if recent.len() < 2 || recent.iter().all(has_own_namespaces) {
            return None;
        }
        let describe = |writer: &Writer<'_>| {
            format!("{} ({})", writer.manager, shorten_names(&writer.autoscalers))
        };
        let each: Vec<_> = recent.into_iter().map(describe).collect();
        Some(format!(
            "Several controllers stored the statuses: {}. hpa status says more.",
            each.join(", ")
        ))
    }
}
