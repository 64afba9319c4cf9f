//! Validation of autoscalers, as the API server validates autoscaling/v2.
//!
//! The rules, their order and their messages are those of the API server. A controller needs them
//! for objects of another API, or of an older or newer server. A client can use them before it
//! writes an object.

mod behavior;
mod field;
mod metric;
mod names;
mod reference;
mod size;
#[cfg(test)]
mod tests;

use self::{
    behavior::validate_behavior,
    field::{Causes, Path},
    metric::validate_metrics,
    reference::{ApiVersionRule, validate_reference},
};
pub use self::{
    field::{Cause, CauseReason},
    size::{MAX_SPEC_BYTES, drop_refused_parts},
};
use crate::api::{HorizontalPodAutoscalerSpec, MetricSourceType, ObjectMeta};
use crate::go_text::{Quoted, join_errors};
use crate::names::{label_value_errors, qualified_name_errors};
pub(crate) use size::measure_spec;

/// The maximum number of metrics of an autoscaler. The core API has no limit, so the API server
/// accepts more, and decisions reject them.
pub const MAX_METRICS: usize = 256;
/// The maximum number of bytes of an object's annotations, keys and values together.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// The inputs of validation other than the object.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ValidationOptions<'a> {
    /// Whether `minReplicas` may be 0: the feature gate `HPAScaleToZero` (KEP-2021), on by default
    /// since Kubernetes 1.37. Default true.
    pub scale_to_zero: bool,
    /// The stored spec, if the object is updated. Some violations are accepted if it already has
    /// them: a `minReplicas` of 0; an invalid `apiVersion` in `scaleTargetRef`, if the kind also
    /// stays the same; and an invalid `apiVersion` of the object that a metric describes, if any of
    /// the stored ones is invalid.
    pub old: Option<&'a HorizontalPodAutoscalerSpec>,
}

impl Default for ValidationOptions<'_> {
    fn default() -> Self {
        Self { scale_to_zero: true, old: None }
    }
}

impl ValidationOptions<'_> {
    fn smallest_min_replicas(&self) -> i32 {
        let was_zero = self.old.is_some_and(|old| old.min_replicas == Some(0));
        i32::from(!self.scale_to_zero && !was_zero)
    }

    fn scale_target_rule(&self, spec: &HorizontalPodAutoscalerSpec) -> ApiVersionRule {
        let new = &spec.scale_target_ref;
        match self.old.map(|old| &old.scale_target_ref) {
            Some(old) if old.api_version == new.api_version && old.kind == new.kind => {
                ApiVersionRule::Unchecked
            }
            // The only kind of the core group that can be scaled. That group has an empty name.
            _ if new.kind == "ReplicationController" => ApiVersionRule::GroupOptional,
            _ => ApiVersionRule::GroupRequired,
        }
    }

    fn object_metric_rule(&self) -> ApiVersionRule {
        let rule = ApiVersionRule::GroupOptional;
        let mut metrics = self.old.iter().flat_map(|old| &old.metrics);
        let was_wrong = metrics.any(|metric| {
            let object =
                metric.object.as_ref().filter(|_| metric.source_type == MetricSourceType::Object);
            object.is_some_and(|object| {
                rule.violation(&object.described_object.api_version).is_some()
            })
        });
        if was_wrong { ApiVersionRule::Unchecked } else { rule }
    }
}

/// Validates a spec after defaulting ([`crate::defaults::apply_defaults`]). Returns the violations
/// in the API server's order and with its messages, or none if the spec is valid.
///
/// As in the API server, a violation may occur twice. If several members of a metric are set, the
/// API server reports them in random order, and this function in a fixed one.
///
/// Sources: API reference of autoscaling/v2, KEP-853 (`behavior`), KEP-2021 (zero replicas),
/// KEP-4951 (tolerance).
pub fn validate(spec: &HorizontalPodAutoscalerSpec, options: &ValidationOptions<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let path = Path::root("spec");
    validate_bounds(&mut causes, &path, spec, options.smallest_min_replicas());
    let target_rule = options.scale_target_rule(spec);
    validate_reference(
        &mut causes,
        &path.child("scaleTargetRef"),
        &spec.scale_target_ref,
        target_rule,
    );
    let object_rule = options.object_metric_rule();
    validate_metrics(
        &mut causes,
        &path.child("metrics"),
        &spec.metrics,
        spec.min_replicas,
        object_rule,
    );
    if let Some(behavior) = &spec.behavior {
        validate_behavior(&mut causes, &path.child("behavior"), behavior);
    }
    causes.0
}

fn validate_bounds(
    causes: &mut Causes,
    path: &Path<'_>,
    spec: &HorizontalPodAutoscalerSpec,
    smallest_min: i32,
) {
    if let Some(min) = spec.min_replicas.filter(|min| *min < smallest_min) {
        let detail = format!("must be greater than or equal to {smallest_min}");
        causes.invalid(&path.child("minReplicas"), min, &detail);
    }
    let (path, max) = (path.child("maxReplicas"), spec.max_replicas);
    if max == 0 {
        causes.required(&path, "must be set and greater than 0");
    } else if max < 0 {
        causes.invalid(&path, max, "must be greater than or equal to 1");
    }
    if spec.min_replicas.is_some_and(|min| max < min) {
        causes.invalid(&path, max, "must be greater than or equal to `minReplicas`");
    }
}

/// Validates the `metadata.name` of an autoscaler: a DNS subdomain (RFC 1123) of at most 253 bytes
/// ("Object Names and IDs" in the Kubernetes documentation).
pub fn validate_name(name: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    let metadata = Path::root("metadata");
    let path = metadata.child("name");
    if name.is_empty() {
        causes.required(&path, "name or generateName is required");
    } else {
        names::dns_subdomain(&mut causes, &path, name);
    }
    causes.0
}

/// Validates the labels and annotations of an object. The fields of the causes have the key, which
/// those of the API server don't have.
pub fn validate_labels_and_annotations(metadata: &ObjectMeta) -> Vec<Cause> {
    let mut causes = Causes::default();
    let path = Path::root("metadata");
    let (labels, annotations) = (path.child("labels"), path.child("annotations"));
    let mut add = |path: &Path<'_>, text: &str, errors: Vec<String>| {
        for error in errors {
            causes.invalid(path, Quoted(text), &error);
        }
    };
    for (key, value) in &metadata.labels {
        let path = labels.key(key);
        add(&path, key, qualified_name_errors(key));
        add(&path, value, label_value_errors(value));
    }
    let mut bytes = 0;
    for (key, value) in &metadata.annotations {
        // The case of an annotation's key doesn't matter.
        add(&annotations.key(key), key, qualified_name_errors(&key.to_lowercase()));
        bytes += key.len() + value.len();
    }
    if bytes > MAX_ANNOTATION_BYTES {
        causes.too_long(&annotations, MAX_ANNOTATION_BYTES);
    }
    causes.0
}

/// The `message` of the Status with which the API server rejects an invalid object: every cause
/// once, in brackets if there are several. `kind_and_group` is, for example,
/// `HorizontalPodAutoscaler.autoscaling`.
pub fn invalid_message(kind_and_group: &str, name: &str, causes: &[Cause]) -> String {
    let separator = if causes.is_empty() { "" } else { ": " };
    let causes = join_errors(causes.iter().map(ToString::to_string));
    format!("{kind_and_group} {} is invalid{separator}{causes}", Quoted(name))
}
