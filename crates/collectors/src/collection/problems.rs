//! Formats the problems of an autoscaler's annotations and metrics for an event.

use std::collections::BTreeSet;

use hpa_calc::HorizontalPodAutoscaler;

use crate::Finding;

/// The maximum number of findings in an event.
const MAX_FINDINGS: usize = 8;

/// The maximum length of a finding. It may quote an annotation of up to 256 KiB.
const MAX_FINDING_CHARS: usize = 300;

/// All problems of one autoscaler's annotations and metrics in one message, for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorProblem {
    /// The API group of the autoscaler.
    pub group: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub message: String,
}

/// The first findings for an autoscaler, without duplicates, and the number of omitted ones.
#[derive(Default)]
pub(super) struct FindingSummary {
    errors: BTreeSet<String>,
    warnings: BTreeSet<String>,
    omitted: usize,
}

impl FindingSummary {
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            let text = format!("{}: {}", finding.subject, finding.message);
            let text: String = text.chars().take(MAX_FINDING_CHARS).collect();
            let is_full = self.errors.len() + self.warnings.len() >= MAX_FINDINGS;
            let texts = if finding.is_error { &mut self.errors } else { &mut self.warnings };
            if is_full && !texts.contains(&text) {
                self.omitted += 1;
            } else {
                texts.insert(text);
            }
        }
    }

    /// The message of the event. Errors come before warnings. Their prefix is
    /// kube-metrics-adapter's text.
    fn message(&self) -> Option<String> {
        let joined = |texts: &BTreeSet<String>, prefix: &str| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            (!texts.is_empty()).then(|| format!("{prefix}: {}", texts.join("; ")))
        };
        let parts = [
            joined(&self.errors, "Failed to create new metrics collector"),
            joined(&self.warnings, "Settings without effect or with errors"),
            (self.omitted > 0).then(|| format!("and {} more", self.omitted)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl CollectorProblem {
    pub(super) fn new(
        group: &str,
        hpa: &HorizontalPodAutoscaler,
        summary: &FindingSummary,
    ) -> Option<Self> {
        let metadata = &hpa.metadata;
        summary.message().map(|message| Self {
            group: group.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            message,
        })
    }
}
