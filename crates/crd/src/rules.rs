//! The API server's validation of autoscaling/v2 ([`hpa_calc::validation`]), as bounds and rules of
//! a schema.
//!
//! A check is a bound or an enumeration where possible, because any tool can check those. Other
//! checks are CEL rules, limited to the functions of the first API servers with CEL.

use hpa_calc::validation::MAX_METRICS;
use serde_json::{Map, Value, json};

use crate::{DefinitionError, path::schema_at};

/// The maximum length of texts that rules check, in characters. The core API has no such limits,
/// but the API server rejects rules of unlimited cost.
const MAX_TEXT: i32 = 1024;
/// The maximum length of a quantity, for the same reason.
const MAX_QUANTITY: i32 = 128;

/// A quantity as Kubernetes parses it, with white space around it and an exponent of at most 64
/// bits.
const QUANTITY: &str =
    r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,18})?\s*$";

/// A CEL rule.
struct Rule {
    expression: &'static str,
    message: &'static str,
    reason: &'static str,
    /// The member to report, if the rule needs several members or reports a missing one.
    member: Option<&'static str>,
}

const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const INVALID: &str = "FieldValueInvalid";

const fn member_rule(
    member: &'static str,
    reason: &'static str,
    expression: &'static str,
    message: &'static str,
) -> Rule {
    Rule { expression, message, reason, member: Some(member) }
}

const fn value_rule(reason: &'static str, expression: &'static str, message: &'static str) -> Rule {
    Rule { expression, message, reason, member: None }
}

const SPEC: &[Rule] = &[
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

/// The rules for a segment of a URL path, such as a kind or the name of a metric.
const SEGMENT: &[Rule] = &[
    value_rule(REQUIRED, "self != ''", "must not be empty"),
    value_rule(INVALID, "self != '.'", "may not be '.'"),
    value_rule(INVALID, "self != '..'", "may not be '..'"),
    value_rule(INVALID, "!self.contains('/')", "may not contain '/'"),
    value_rule(INVALID, "!self.contains('%')", "may not contain '%'"),
];

/// ReplicationController needs no group: it is the only core kind with a scale subresource.
const SCALE_TARGET: &[Rule] = &[
    member_rule(
        ".apiVersion",
        INVALID,
        "self.kind == 'ReplicationController' || (has(self.apiVersion) && \
            self.apiVersion.matches('^[^/]+/'))",
        "apiVersion must specify API group",
    ),
    member_rule(".apiVersion", INVALID, GROUP_VERSION, GROUP_VERSION_MESSAGE),
];

const DESCRIBED_OBJECT: &[Rule] =
    &[member_rule(".apiVersion", INVALID, GROUP_VERSION, GROUP_VERSION_MESSAGE)];

const GROUP_VERSION: &str = "!has(self.apiVersion) || self.apiVersion.matches('^[^/]*(/[^/]*)?$')";
const GROUP_VERSION_MESSAGE: &str = "unexpected GroupVersion string: at most one '/'";

/// The member that `type` names must be set, and no other. If only a wrong member is set, the rules
/// report the missing one.
const METRIC: &[Rule] = &[
    member_rule(".object", REQUIRED, "self.type != 'Object' || has(self.object)", SOURCE_MISSING),
    member_rule(".pods", REQUIRED, "self.type != 'Pods' || has(self.pods)", SOURCE_MISSING),
    member_rule(
        ".resource",
        REQUIRED,
        "self.type != 'Resource' || has(self.resource)",
        SOURCE_MISSING,
    ),
    member_rule(
        ".external",
        REQUIRED,
        "self.type != 'External' || has(self.external)",
        SOURCE_MISSING,
    ),
    member_rule(
        ".containerResource",
        REQUIRED,
        "self.type != 'ContainerResource' || has(self.containerResource)",
        SOURCE_MISSING,
    ),
    member_rule(
        ".object",
        FORBIDDEN,
        "self.type == 'Object' || !has(self.object) || !(has(self.pods) || has(self.resource) || \
            has(self.external) || has(self.containerResource))",
        SOURCE_TOO_MANY,
    ),
    member_rule(
        ".pods",
        FORBIDDEN,
        "self.type == 'Pods' || !has(self.pods) || !(has(self.object) || has(self.resource) || \
            has(self.external) || has(self.containerResource))",
        SOURCE_TOO_MANY,
    ),
    member_rule(
        ".resource",
        FORBIDDEN,
        "self.type == 'Resource' || !has(self.resource) || !(has(self.object) || has(self.pods) || \
            has(self.external) || has(self.containerResource))",
        SOURCE_TOO_MANY,
    ),
    member_rule(
        ".external",
        FORBIDDEN,
        "self.type == 'External' || !has(self.external) || !(has(self.object) || has(self.pods) || \
            has(self.resource) || has(self.containerResource))",
        SOURCE_TOO_MANY,
    ),
    member_rule(
        ".containerResource",
        FORBIDDEN,
        "self.type == 'ContainerResource' || !has(self.containerResource) || \
            !(has(self.object) || has(self.pods) || has(self.resource) || has(self.external))",
        SOURCE_TOO_MANY,
    ),
];
const SOURCE_MISSING: &str = "must populate information for the given metric source";
const SOURCE_TOO_MANY: &str = "must populate the given metric source only";

const OBJECT_TARGET: &[Rule] = &[member_rule(
    ".averageValue",
    REQUIRED,
    "has(self.value) || has(self.averageValue)",
    "must set either a target value or averageValue",
)];

const EXTERNAL_TARGET: &[Rule] = &[
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

const PODS_TARGET: &[Rule] = &[member_rule(
    ".averageValue",
    REQUIRED,
    "has(self.averageValue)",
    "must specify a positive target averageValue",
)];

const RESOURCE_TARGET: &[Rule] = &[
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

/// A quantity is positive if it has a nonzero digit and no minus sign: because quantities are
/// rounded away from zero, such a text is never the number 0.
const POSITIVE: &[Rule] =
    &[value_rule(INVALID, r"string(self).matches('^\\s*[+]?[0.]*[1-9]')", "must be positive")];
const NOT_NEGATIVE: &[Rule] = &[value_rule(
    INVALID,
    r"!string(self).matches('^\\s*-[0.]*[1-9]')",
    "must be greater than or equal to 0",
)];

const RESOURCE_NAME: &[Rule] =
    &[value_rule(REQUIRED, "self != ''", "must specify a resource name")];

const CONTAINER: &[Rule] = &[
    value_rule(REQUIRED, "self != ''", "must specify a container"),
    value_rule(INVALID, "size(self) <= 63", "must be no more than 63 characters"),
    value_rule(
        INVALID,
        "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
            must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc')",
    ),
];

/// A container resource of core/v1, a native resource with a prefix, or an extended resource.
/// Quotas count extended resources with the prefix `requests.`, which limits the length of the
/// domain.
const CONTAINER_RESOURCE_NAME: &[Rule] = &[
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
            (self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') \
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

/// The rules by field, below `spec`.
const RULES: &[(&str, &[Rule])] = &[
    ("", SPEC),
    ("scaleTargetRef", SCALE_TARGET),
    ("scaleTargetRef.kind", SEGMENT),
    ("scaleTargetRef.name", SEGMENT),
    ("metrics[]", METRIC),
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

/// The members of a metric that have a target.
const SOURCES: [&str; 5] = ["object", "pods", "external", "resource", "containerResource"];

/// Strings that the rules of their parents check.
const TEXTS: [&str; 2] =
    ["scaleTargetRef.apiVersion", "metrics[].object.describedObject.apiVersion"];

/// Adds bounds, enumerations and rules to the schema of a spec.
pub(crate) fn apply(spec: &mut Value) -> Result<(), DefinitionError> {
    bounds(spec)?;
    for (path, rules) in RULES {
        add(schema_at(spec, path)?, rules);
    }
    for path in TEXTS {
        set(spec, path, json!({ "maxLength": MAX_TEXT }))?;
    }
    for source in SOURCES {
        let target = format!("metrics[].{source}.target");
        set(spec, &format!("{target}.averageUtilization"), json!({ "minimum": 1 }))?;
        for member in ["value", "averageValue"] {
            quantity(spec, &format!("{target}.{member}"), POSITIVE)?;
        }
    }
    Ok(())
}

fn bounds(spec: &mut Value) -> Result<(), DefinitionError> {
    set(spec, "minReplicas", json!({ "minimum": 0 }))?;
    set(spec, "maxReplicas", json!({ "minimum": 1 }))?;
    set(spec, "metrics", json!({ "maxItems": MAX_METRICS }))?;
    for direction in ["behavior.scaleUp", "behavior.scaleDown"] {
        let at = |member: &str| format!("{direction}.{member}");
        set(spec, &at("stabilizationWindowSeconds"), json!({ "minimum": 0, "maximum": 3600 }))?;
        set(spec, &at("policies"), json!({ "minItems": 1 }))?;
        set(spec, &at("policies[].value"), json!({ "minimum": 1 }))?;
        set(spec, &at("policies[].periodSeconds"), json!({ "minimum": 1, "maximum": 1800 }))?;
        quantity(spec, &at("tolerance"), NOT_NEGATIVE)?;
    }
    Ok(())
}

fn quantity(spec: &mut Value, path: &str, rules: &[Rule]) -> Result<(), DefinitionError> {
    set(spec, path, json!({ "maxLength": MAX_QUANTITY, "pattern": QUANTITY }))?;
    add(schema_at(spec, path)?, rules);
    Ok(())
}

fn set(spec: &mut Value, path: &str, members: Value) -> Result<(), DefinitionError> {
    if let Value::Object(members) = members {
        schema_at(spec, path)?.extend(members);
    }
    Ok(())
}

fn add(schema: &mut Map<String, Value>, rules: &[Rule]) {
    if schema.get("type").is_some_and(|kind| kind == "string") {
        schema.insert("maxLength".to_owned(), MAX_TEXT.into());
    }
    let rules: Vec<Value> = rules.iter().map(to_json).collect();
    schema.insert("x-kubernetes-validations".to_owned(), rules.into());
}

fn to_json(rule: &Rule) -> Value {
    let mut json =
        json!({ "rule": rule.expression, "message": rule.message, "reason": rule.reason });
    if let (Some(member), Value::Object(json)) = (rule.member, &mut json) {
        json.insert("fieldPath".to_owned(), member.into());
    }
    json
}
