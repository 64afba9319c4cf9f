//! A finding, and the report to which a check adds findings.

use std::cmp::Reverse;

use hpa_calc::go_text::truncate;
use hpa_controller::AutoscalerApi;

use super::{
    object::{autoscaler_api, qualified_name},
    rules::Rule,
};
pub(super) use crate::findings::Severity;
use crate::{
    convert::stored_fields::StoredFields,
    manifests::{Manifest, Position},
};

/// The maximum number of characters of an autoscaler's name and of a field's path in a finding. A
/// namespace, a name and the key of an annotation that the API server accepts are shorter.
const MAX_NAME_CHARS: usize = 400;
/// The maximum number of characters of a finding's message, which may quote the manifest.
const MAX_MESSAGE_CHARS: usize = 2000;

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rule: &'static Rule,
    pub(super) file: String,
    pub(super) position: Position,
    /// The [`qualified_name`] of the autoscaler. One of the custom API in a cluster has the prefix
    /// `rhpa/`.
    pub(super) autoscaler: String,
    /// The path of the field, such as `spec.metrics[0]`.
    pub(super) field: String,
    pub(super) message: String,
}

impl Finding {
    /// The key to sort findings by file, line and autoscaler, then by severity with the highest
    /// first. Findings of one rule about one autoscaler and one line have equal keys.
    pub(super) fn sort_key(&self) -> impl Ord + '_ {
        let Self { file, position, autoscaler, rule, .. } = self;
        (file, position.line, autoscaler, Reverse(rule.severity), rule.id)
    }

    /// The printed parts of the finding. Findings with equal parts are duplicates.
    pub(super) fn printed_parts(&self) -> [String; 4] {
        let place = format!("{}:{} {}", self.file, self.position.line, self.rule.id);
        [place, self.autoscaler.clone(), self.field.clone(), self.message.clone()]
    }
}

/// Adds findings about one rule and one object.
pub(super) struct Report<'a> {
    pub(super) rule: &'static Rule,
    pub(super) manifest: &'a Manifest,
    pub(super) stored_fields: &'a StoredFields,
    pub(super) findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    /// Reports a field of the autoscaler, by its path in `autoscaling/v2`.
    pub(super) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let field = self.stored_fields.stored_field(field.into());
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

    /// Adds a finding at a position in the file of `place`. Shortens its texts, because a manifest
    /// that the API server would refuse may have names of any length.
    fn push(&mut self, place: &Manifest, position: Position, field: String, message: String) {
        let (rule, file) = (self.rule, place.file.clone());
        let autoscaler = match autoscaler_api(self.manifest) {
            // Without a line, only the prefix distinguishes it from one of the core API.
            AutoscalerApi::Custom if self.manifest.line == 0 => {
                format!("{}/{}", hpa_calc::crd::SHORT_NAME, qualified_name(self.manifest))
            }
            _ => qualified_name(self.manifest),
        };
        self.findings.push(Finding {
            rule,
            file,
            position,
            autoscaler: truncate(autoscaler, MAX_NAME_CHARS),
            field: truncate(field, MAX_NAME_CHARS),
            message: truncate(message, MAX_MESSAGE_CHARS),
        });
    }
}
