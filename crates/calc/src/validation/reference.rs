//! The rules for object references.

use super::{
    field::{Causes, Path},
    names,
};
use crate::api::CrossVersionObjectReference;
use crate::go_text::Quoted;

/// The rule for the `apiVersion` of a reference.
#[derive(Clone, Copy)]
pub(super) enum ApiVersionRule {
    /// `group/version`.
    GroupRequired,
    /// `group/version`, `version` or an empty text.
    GroupOptional,
    /// Any text, because the stored object has the same one or already violates the rule.
    Unchecked,
}

impl ApiVersionRule {
    /// The violation of this rule by an `apiVersion`, if any.
    pub(super) fn violation(self, api_version: &str) -> Option<String> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match self {
            Self::Unchecked => None,
            _ if api_version.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {api_version}"))
            }
            Self::GroupRequired if group.is_empty() => {
                Some("apiVersion must specify API group".to_owned())
            }
            Self::GroupRequired | Self::GroupOptional => None,
        }
    }
}

pub(super) fn validate_reference(
    causes: &mut Causes,
    path: &Path<'_>,
    reference: &CrossVersionObjectReference,
    rule: ApiVersionRule,
) {
    for (member, name) in [("kind", &reference.kind), ("name", &reference.name)] {
        if name.is_empty() {
            causes.required(&path.child(member), "");
        } else {
            names::path_segment(causes, &path.child(member), name);
        }
    }
    if let Some(violation) = rule.violation(&reference.api_version) {
        causes.invalid(&path.child("apiVersion"), Quoted(&reference.api_version), &violation);
    }
}
