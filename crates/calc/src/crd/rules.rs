//! Adds the API server's validation of autoscaling/v2 ([`crate::validation`]) to a schema, as
//! bounds and CEL rules.
//!
//! Limits of numbers and lists are bounds, not CEL rules, because more tools can evaluate bounds.
//! The expressions only use functions that the first API servers with CEL had.

use serde_json::{Map, Value, json};

use super::{DefinitionError, schema::schema_at};
use crate::{
    api::MetricSourceType::{self, ContainerResource, External, Object, Pods, Resource},
    behavior::{MAX_POLICY_PERIOD, MAX_STABILIZATION_WINDOW},
    validation::MAX_METRICS,
};

/// The maximum length of strings that CEL rules read, in characters. The core API has no such
/// limit, but without one the cost of a rule is unlimited, and the API server rejects the
/// definition.
const MAX_TEXT_LEN: i32 = 1024;
/// The maximum length of a quantity in characters, for the same reason.
const MAX_QUANTITY_LEN: i32 = 128;

/// A quantity as the API server parses it: white space around it is allowed. The exponent has at
/// most 18 digits, so it fits in 64 bits.
const QUANTITY: &str =
    r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,18})?\s*$";

/// The schema extension with the rules of a field.
const VALIDATIONS: &str = "x-kubernetes-validations";

struct CelRule<'a> {
    /// In CEL. `self` is the value of the field that has the rule.
    expression: &'a str,
    message: &'a str,
    reason: &'a str,
    /// The member that a violation is reported for. `None` for the field itself.
    member: Option<&'a str>,
}

impl CelRule<'_> {
    fn to_json(&self) -> Value {
        let Self { expression, message, reason, member } = self;
        let mut json = json!({ "rule": expression, "message": message, "reason": reason });
        if let (Some(member), Value::Object(json)) = (member, &mut json) {
            json.insert("fieldPath".to_owned(), (*member).into());
        }
        json
    }
}

// The values of `reason`.
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const INVALID: &str = "FieldValueInvalid";

const fn member_rule<'a>(
    member: &'a str,
    reason: &'a str,
    expression: &'a str,
    message: &'a str,
) -> CelRule<'a> {
    CelRule { expression, message, reason, member: Some(member) }
}

const fn value_rule<'a>(reason: &'a str, expression: &'a str, message: &'a str) -> CelRule<'a> {
    CelRule { expression, message, reason, member: None }
}

const SPEC: &[CelRule<'_>] = &[
    member_rule(
        ".maxReplicas",
        INVALID,
        "!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
        "must be greater than or equal to `minReplicas`",
    ),
    member_rule(
        ".metrics",
        FORBIDDEN,
        "!has(self.minReplicas) || self.minReplicas != 0 || (has(self.metrics) && \
            self.metrics.exists(metric, metric.type in ['Object', 'External']))",
        "must specify at least one Object or External metric to support scaling to zero replicas",
    ),
];

/// The rules for a string that becomes a segment of a URL path, such as the name of a metric.
const SEGMENT: &[CelRule<'_>] = &[
    value_rule(REQUIRED, "self != ''", "must not be empty"),
    value_rule(INVALID, "self != '.'", "may not be '.'"),
    value_rule(INVALID, "self != '..'", "may not be '..'"),
    value_rule(INVALID, "!self.contains('/')", "may not contain '/'"),
    value_rule(INVALID, "!self.contains('%')", "may not contain '%'"),
];

/// Only `ReplicationController` needs no group: it is the only kind with a scale subresource in the
/// core group.
const SCALE_TARGET: &[CelRule<'_>] = &[
    member_rule(
        ".apiVersion",
        INVALID,
        "self.kind == 'ReplicationController' || (has(self.apiVersion) && \
            self.apiVersion.matches('^[^/]+/'))",
        "apiVersion must specify API group",
    ),
    member_rule(".apiVersion", INVALID, GROUP_VERSION, GROUP_VERSION_MESSAGE),
];

const DESCRIBED_OBJECT: &[CelRule<'_>] =
    &[member_rule(".apiVersion", INVALID, GROUP_VERSION, GROUP_VERSION_MESSAGE)];

const GROUP_VERSION: &str = "!has(self.apiVersion) || self.apiVersion.matches('^[^/]*(/[^/]*)?$')";
const GROUP_VERSION_MESSAGE: &str = "unexpected GroupVersion string: at most one '/'";

const OBJECT_TARGET: &[CelRule<'_>] = &[member_rule(
    ".averageValue",
    REQUIRED,
    "has(self.value) || has(self.averageValue)",
    "must set either a target value or averageValue",
)];

const EXTERNAL_TARGET: &[CelRule<'_>] = &[
    member_rule(
        ".averageValue",
        REQUIRED,
        "has(self.value) || has(self.averageValue)",
        "must set either a target value for metric or a per-pod target",
    ),
    member_rule(
        ".value",
        FORBIDDEN,
        "!has(self.value) || !has(self.averageValue)",
        "may not set both a target value for metric and a per-pod target",
    ),
];

const PODS_TARGET: &[CelRule<'_>] = &[member_rule(
    ".averageValue",
    REQUIRED,
    "has(self.averageValue)",
    "must specify a positive target averageValue",
)];

const RESOURCE_TARGET: &[CelRule<'_>] = &[
    member_rule(
        ".averageUtilization",
        REQUIRED,
        "has(self.averageUtilization) || has(self.averageValue)",
        "must set either a target raw value or a target utilization",
    ),
    member_rule(
        ".averageValue",
        FORBIDDEN,
        "!has(self.averageUtilization) || !has(self.averageValue)",
        "may not set both a target raw value and a target utilization",
    ),
];

/// A quantity is positive if it has a nonzero digit and no minus sign. This includes tiny ones,
/// because Kubernetes rounds quantities away from zero.
const POSITIVE: &[CelRule<'_>] =
    &[value_rule(INVALID, r"string(self).matches('^\\s*[+]?[0.]*[1-9]')", "must be positive")];
const NOT_NEGATIVE: &[CelRule<'_>] = &[value_rule(
    INVALID,
    r"!string(self).matches('^\\s*-[0.]*[1-9]')",
    "must be greater than or equal to 0",
)];

const RESOURCE_NAME: &[CelRule<'_>] =
    &[value_rule(REQUIRED, "self != ''", "must specify a resource name")];

const CONTAINER: &[CelRule<'_>] = &[
    value_rule(REQUIRED, "self != ''", "must specify a container"),
    value_rule(INVALID, "size(self) <= 63", "must be no more than 63 characters"),
    value_rule(
        INVALID,
        "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
            must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc')",
    ),
];

/// A container resource of core/v1, a resource in a `kubernetes.io` domain, or an extended
/// resource. `ResourceQuota` prepends `requests.` to extended resources. With that prefix, the
/// domain may have 253 characters, so 244 remain.
const CONTAINER_RESOURCE_NAME: &[CelRule<'_>] = &[
    value_rule(REQUIRED, "self != ''", "must specify a resource name"),
    value_rule(
        INVALID,
        "self == '' || self.contains('/') || self in ['cpu', 'memory', 'ephemeral-storage'] || \
            self.matches('^hugepages-([-A-Za-z0-9_.]{0,52}[A-Za-z0-9])$')",
        "must be a standard resource for containers",
    ),
    value_rule(
        INVALID,
        "!self.contains('/') || \
            (self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/\
                [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') \
            && self.matches('^[^/]{1,253}/'))",
        "must be a qualified name: a DNS subdomain, '/' and a name (e.g. 'example.com/gpu')",
    ),
    value_rule(
        INVALID,
        "!self.contains('/') || self.contains('kubernetes.io/') || \
            (!self.startsWith('requests.') && self.matches('^[^/]{1,244}/'))",
        "doesn't follow extended resource name standard",
    ),
];

/// The rules by the path of their field in `spec`.
const RULES: &[(&str, &[CelRule<'_>])] = &[
    ("", SPEC),
    ("scaleTargetRef", SCALE_TARGET),
    ("scaleTargetRef.kind", SEGMENT),
    ("scaleTargetRef.name", SEGMENT),
    ("metrics[].object.describedObject", DESCRIBED_OBJECT),
    ("metrics[].object.describedObject.kind", SEGMENT),
    ("metrics[].object.describedObject.name", SEGMENT),
    ("metrics[].object.metric.name", SEGMENT),
    ("metrics[].object.target", OBJECT_TARGET),
    ("metrics[].pods.metric.name", SEGMENT),
    ("metrics[].pods.target", PODS_TARGET),
    ("metrics[].external.metric.name", SEGMENT),
    ("metrics[].external.target", EXTERNAL_TARGET),
    ("metrics[].resource.name", RESOURCE_NAME),
    ("metrics[].resource.target", RESOURCE_TARGET),
    ("metrics[].containerResource.name", CONTAINER_RESOURCE_NAME),
    ("metrics[].containerResource.container", CONTAINER),
    ("metrics[].containerResource.target", RESOURCE_TARGET),
];

/// The types of metrics, in the order of their rules. The member that each one names has a target.
const METRIC_SOURCES: &[MetricSourceType] = &[Object, Pods, Resource, External, ContainerResource];

/// Strings without rules of their own that the rules of their parents read.
const STRINGS_READ_BY_PARENT_RULES: [&str; 2] =
    ["scaleTargetRef.apiVersion", "metrics[].object.describedObject.apiVersion"];

/// Adds bounds and CEL rules to the schema of a spec.
pub(crate) fn apply(spec: &mut Value) -> Result<(), DefinitionError> {
    add_bounds(spec)?;
    for (path, rules) in RULES {
        add_rules(schema_at(spec, path)?, rules);
    }
    schema_at(spec, "metrics[]")?.insert(VALIDATIONS.to_owned(), source_rules().into());
    for path in STRINGS_READ_BY_PARENT_RULES {
        add_keywords(spec, path, json!({ "maxLength": MAX_TEXT_LEN }))?;
    }
    for source in METRIC_SOURCES.iter().filter_map(MetricSourceType::member) {
        let target = format!("metrics[].{source}.target");
        add_keywords(spec, &format!("{target}.averageUtilization"), json!({ "minimum": 1 }))?;
        for member in ["value", "averageValue"] {
            restrict_quantity(spec, &format!("{target}.{member}"), POSITIVE)?;
        }
    }
    Ok(())
}

fn add_bounds(spec: &mut Value) -> Result<(), DefinitionError> {
    add_keywords(spec, "minReplicas", json!({ "minimum": 0 }))?;
    add_keywords(spec, "maxReplicas", json!({ "minimum": 1 }))?;
    add_keywords(spec, "metrics", json!({ "maxItems": MAX_METRICS }))?;
    for direction in ["behavior.scaleUp", "behavior.scaleDown"] {
        let field = |member: &str| format!("{direction}.{member}");
        add_keywords(
            spec,
            &field("stabilizationWindowSeconds"),
            json!({ "minimum": 0, "maximum": MAX_STABILIZATION_WINDOW.as_secs() }),
        )?;
        add_keywords(spec, &field("policies"), json!({ "minItems": 1 }))?;
        add_keywords(spec, &field("policies[].value"), json!({ "minimum": 1 }))?;
        add_keywords(
            spec,
            &field("policies[].periodSeconds"),
            json!({ "minimum": 1, "maximum": MAX_POLICY_PERIOD.as_secs() }),
        )?;
        restrict_quantity(spec, &field("tolerance"), NOT_NEGATIVE)?;
    }
    Ok(())
}

fn restrict_quantity(
    spec: &mut Value,
    path: &str,
    rules: &[CelRule<'_>],
) -> Result<(), DefinitionError> {
    add_keywords(spec, path, json!({ "maxLength": MAX_QUANTITY_LEN, "pattern": QUANTITY }))?;
    add_rules(schema_at(spec, path)?, rules);
    Ok(())
}

fn add_keywords(spec: &mut Value, path: &str, keywords: Value) -> Result<(), DefinitionError> {
    if let Value::Object(keywords) = keywords {
        schema_at(spec, path)?.extend(keywords);
    }
    Ok(())
}

fn add_rules(schema: &mut Map<String, Value>, rules: &[CelRule<'_>]) {
    if schema.get("type").is_some_and(|kind| kind == "string") {
        schema.insert("maxLength".to_owned(), MAX_TEXT_LEN.into());
    }
    schema.insert(VALIDATIONS.to_owned(), rules.iter().map(CelRule::to_json).collect());
}

/// The rules of a metric: the member that `type` names must be set, and no other. If another one is
/// set instead of it, only the missing member is reported.
fn source_rules() -> Vec<Value> {
    let sources: Vec<(&MetricSourceType, &str)> =
        METRIC_SOURCES.iter().filter_map(|kind| Some((kind, kind.member()?))).collect();
    let missing = sources.iter().map(|(kind, source)| {
        let expression = format!("self.type != '{kind}' || has(self.{source})");
        let message = "must populate information for the given metric source";
        member_rule(&format!(".{source}"), REQUIRED, &expression, message).to_json()
    });
    let unexpected = sources.iter().map(|(kind, source)| {
        let others = sources.iter().filter(|(_, other)| other != source);
        let others: Vec<String> = others.map(|(_, other)| format!("has(self.{other})")).collect();
        let others = others.join(" || ");
        let expression = format!("self.type == '{kind}' || !has(self.{source}) || !({others})");
        let message = "must populate the given metric source only";
        member_rule(&format!(".{source}"), FORBIDDEN, &expression, message).to_json()
    });
    missing.chain(unexpected).collect()
}
