//! A finding, and the report to which a check adds findings.

use std::cmp::Reverse;

use serde::Serialize;

use super::rules::Rule;
use crate::{
    lint::old_fields::stored_field,
    manifests::{Manifest, Position, string_at},
};

/// The severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The setting may be intended.
    Note,
    /// The autoscaler doesn't work as intended, or may fail at any time.
    Warning,
    /// The API server rejects the object.
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

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rule: &'static Rule,
    pub(super) file: String,
    pub(super) position: Position,
    /// The [`qualified_name`] of the autoscaler.
    pub(super) autoscaler: String,
    /// The path of the field, such as `spec.metrics[0]`.
    pub(super) field: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn severity(&self) -> Severity {
        self.rule.severity
    }

    /// By file, line and autoscaler, then by severity with the highest first. Findings of one rule
    /// about one line have equal keys.
    pub(super) fn sort_key(&self) -> impl Ord + '_ {
        let Self { file, position, autoscaler, rule, .. } = self;
        (file, position.line, autoscaler, Reverse(self.severity()), rule.id)
    }

    /// A text for each part of the finding that a reader sees, to find duplicates.
    pub(super) fn identity(&self) -> [String; 4] {
        let place = format!("{}:{} {}", self.file, self.position.line, self.rule.id);
        [place, self.autoscaler.clone(), self.field.clone(), self.message.clone()]
    }
}

/// Adds findings about one rule and one object.
pub(super) struct Report<'a> {
    pub(super) rule: &'static Rule,
    pub(super) manifest: &'a Manifest,
    pub(super) findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    /// Reports a field of the autoscaler, by its path in `autoscaling/v2`.
    pub(super) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let field = stored_field(&self.manifest.object, field.into());
        self.add_at(self.manifest.position(&field), field, message);
    }

    /// Reports a position in the autoscaler's file.
    pub(super) fn add_at(
        &mut self,
        position: Position,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.push(self.manifest, position, field.into(), message.into());
    }

    /// Reports a field of another object, such as the target. The finding names the autoscaler.
    pub(super) fn add_for_object(
        &mut self,
        other: &Manifest,
        field: &str,
        message: impl Into<String>,
    ) {
        self.push(other, other.position(field), field.to_owned(), message.into());
    }

    /// Adds a finding at a position in the file of `place`.
    fn push(&mut self, place: &Manifest, position: Position, field: String, message: String) {
        let (rule, file) = (self.rule, place.file.clone());
        let autoscaler = qualified_name(self.manifest);
        self.findings.push(Finding { rule, file, position, autoscaler, field, message });
    }
}

/// `namespace/name` of an object, or `name` if the manifest has no namespace. `generateName` stands
/// for a name, and `(no name)` for the lack of both.
pub(super) fn qualified_name(manifest: &Manifest) -> String {
    let object = &manifest.object;
    let names = ["/metadata/name", "/metadata/generateName"];
    let mut names = names.into_iter().map(|pointer| string_at(object, pointer));
    let name = names.find(|name| !name.is_empty()).unwrap_or("(no name)");
    match string_at(object, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}
