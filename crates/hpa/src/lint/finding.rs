//! What a check reports.

use std::cmp::Reverse;

use serde::Serialize;

use crate::manifests::{Manifest, text};

/// Where the rules are documented.
const DOCUMENT: &str = "docs/lint.md";

/// How bad a finding is. The order is that of the badness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It may be intended.
    Note,
    /// It doesn't work as intended, or may fail at any time.
    Warning,
    /// The API server refuses the object.
    Error,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A check. `docs/lint.md` has a section of its id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    pub(super) summary: &'static str,
}

impl Rule {
    pub(super) fn link(&self) -> String {
        format!("{DOCUMENT}#{}", self.id)
    }
}

macro_rules! rules {
    ($($name:ident = $id:literal, $severity:ident, $summary:literal;)*) => {
        $(pub(super) const $name: Rule =
            Rule { id: $id, severity: Severity::$severity, summary: $summary };)*
        /// All rules.
        pub(super) const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    INVALID = "invalid", Error, "The API server refuses the object";
    UNKNOWN_FIELD = "unknown-field", Warning, "A field has no meaning";
    MISSING_REQUEST = "missing-request", Warning,
        "A container lacks the request that a utilization is a percentage of";
    MISSING_SELECTOR = "missing-selector", Warning, "The target's scale has no selector";
    SHARED_TARGET = "shared-target", Warning, "Several autoscalers have the same target";
    FIXED_SIZE = "fixed-size", Warning, "minReplicas equals maxReplicas";
    STUCK_SCALE_UP = "stuck-scale-up", Warning, "Policies don't allow a scale-up from this size";
    SHORT_WINDOW = "short-window", Note, "A window or period is shorter than the sync period";
    VPA_CONFLICT = "vpa-conflict", Warning,
        "A VerticalPodAutoscaler changes the requests that the target is a percentage of";
    REPLICAS_IN_MANIFEST = "replicas-in-manifest", Warning,
        "The manifest of the target sets spec.replicas";
    TARGET_ABOVE_REQUEST = "target-above-request", Warning,
        "The target utilization is above 100 % of the request";
    UNUSED_BEHAVIOR = "unused-behavior", Warning, "A part of behavior never acts";
    WIDE_TOLERANCE = "wide-tolerance", Warning,
        "The tolerance is wider than every step between the bounds";
    UNSERVED_METRIC = "unserved-metric", Warning, "No API and no rule serves the metric";
}

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rule: &'static Rule,
    pub(super) file: String,
    pub(super) line: usize,
    /// `namespace/name` of the autoscaler.
    pub(super) autoscaler: String,
    /// The path of the field.
    pub(super) field: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(
        rule: &'static Rule,
        manifest: &Manifest,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            rule,
            file: manifest.file.clone(),
            line: manifest.line,
            autoscaler: name(manifest),
            field: field.into(),
            message: message.into(),
        }
    }

    pub(super) fn severity(&self) -> Severity {
        self.rule.severity
    }

    pub(super) fn order(&self) -> impl Ord + '_ {
        let severity = Reverse(self.severity());
        (&self.file, self.line, &self.autoscaler, severity, self.rule.id, &self.field)
    }
}

/// `namespace/name` of an object, or `name`.
pub(super) fn name(manifest: &Manifest) -> String {
    let object = &manifest.object;
    match (text(object, "/metadata/namespace"), text(object, "/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
