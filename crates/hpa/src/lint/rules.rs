//! Advice about valid autoscalers.

mod behavior;
mod metrics;
mod target;

use hpa_calc::HorizontalPodAutoscaler;

use super::{
    finding::{Finding, Rule},
    workspace::Workspace,
};
use crate::manifests::Manifest;

/// An autoscaler that is checked, with its findings.
struct Subject<'a> {
    workspace: &'a Workspace,
    manifest: &'a Manifest,
    /// With the defaults of the API server.
    hpa: &'a HorizontalPodAutoscaler,
    findings: &'a mut Vec<Finding>,
}

impl Subject<'_> {
    fn report(
        &mut self,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.findings.push(Finding::new(rule, self.manifest, field, message));
    }
}

/// Runs all checks of an autoscaler.
pub(super) fn check(
    workspace: &Workspace,
    manifest: &Manifest,
    hpa: &HorizontalPodAutoscaler,
    findings: &mut Vec<Finding>,
) {
    let mut subject = Subject { workspace, manifest, hpa, findings };
    metrics::check(&mut subject);
    target::check(&mut subject);
    behavior::check(&mut subject);
}
