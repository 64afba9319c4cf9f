//! The lists of custom and external metrics.

use std::collections::BTreeMap;

use hpa_calc::{
    Quantity, Selector,
    go_text::Quoted,
    selector::{Operator, Requirement},
};
use hpa_metrics::wire::ItemLabels;
use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::metrics_api::{group::CustomVersion, status::StatusError};

/// The kind of the objects that a custom metric describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribedKind<'a> {
    /// The group. It is empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

/// The value of a custom metric of an object.
#[derive(Clone, Debug)]
pub struct CustomItem<'a> {
    /// The name of the object.
    pub name: &'a str,
    /// When the value was measured.
    pub timestamp: Timestamp,
    /// The time over which it was measured, in seconds.
    pub window_seconds: Option<i64>,
    /// The value.
    pub value: Quantity,
}

/// A list of values of a custom metric. It serializes to the body of a response.
#[derive(Clone, Debug)]
pub struct CustomList<'a> {
    /// The version of the API.
    pub version: CustomVersion,
    /// The kind of the objects.
    pub kind: DescribedKind<'a>,
    /// The namespace of the objects. It is empty for objects without one.
    pub namespace: &'a str,
    /// The name of the metric.
    pub metric: &'a str,
    /// The selector of series, as the items repeat it.
    pub selector: Option<LabelSelector<'a>>,
    /// The values.
    pub items: Vec<CustomItem<'a>>,
}

impl Serialize for CustomList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let api_version = format!("custom.metrics.k8s.io/{}", self.version.name());
        // The reference has this text also for the core group: `/v1`.
        let object_version = format!("{}/{}", self.kind.group, self.kind.version);
        let items = self.items.iter().map(|item| EncodedCustomItem {
            list: self,
            item,
            api_version: &object_version,
        });
        list(serializer, "MetricValueList", &api_version, &items.collect::<Vec<_>>())
    }
}

struct EncodedCustomItem<'a> {
    list: &'a CustomList<'a>,
    item: &'a CustomItem<'a>,
    api_version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DescribedObject<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    api_version: &'a str,
}

#[derive(Serialize)]
struct MetricIdentifier<'a> {
    name: &'a str,
    selector: Option<&'a LabelSelector<'a>>,
}

impl Serialize for EncodedCustomItem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CustomList { version, kind, namespace, metric, selector, .. } = self.list;
        let CustomItem { name, timestamp, window_seconds, value } = self.item;
        let mut item = serializer.serialize_struct("MetricValue", 6)?;
        let described =
            DescribedObject { kind: kind.kind, namespace, name, api_version: self.api_version };
        item.serialize_field("describedObject", &described)?;
        let selector = selector.as_ref();
        match version {
            CustomVersion::V1Beta1 => item.serialize_field("metricName", metric)?,
            CustomVersion::V1Beta2 => {
                item.serialize_field("metric", &MetricIdentifier { name: metric, selector })?;
            }
        }
        item.serialize_field("timestamp", &Seconds(*timestamp))?;
        if let Some(window) = window_seconds {
            let field = match version {
                CustomVersion::V1Beta1 => "window",
                CustomVersion::V1Beta2 => "windowSeconds",
            };
            item.serialize_field(field, window)?;
        }
        item.serialize_field("value", value)?;
        if *version == CustomVersion::V1Beta1 {
            item.serialize_field("selector", &selector)?;
        }
        item.end()
    }
}

/// A selector in the form of an object, which the items of a custom metric repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Expression<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Expression<'a> {
    key: &'a str,
    operator: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<&'a str>,
}

impl<'a> LabelSelector<'a> {
    /// The form of a selector. `None` if it is empty. It fails for operators that this form doesn't
    /// have. If a key has several values, the last one counts.
    pub fn new(selector: &'a Selector) -> Result<Option<Self>, StatusError> {
        if selector.is_empty() {
            return Ok(None);
        }
        let mut object = Self::default();
        for requirement in selector.requirements() {
            let key = requirement.key();
            let operator = match requirement.operator() {
                Operator::Equals | Operator::DoubleEquals => {
                    object.match_labels.insert(key, requirement.values().next().unwrap_or(""));
                    continue;
                }
                Operator::In => "In",
                Operator::NotIn => "NotIn",
                Operator::Exists => "Exists",
                Operator::DoesNotExist => "DoesNotExist",
                Operator::NotEquals => return Err(unsupported("!=")),
                Operator::GreaterThan => return Err(unsupported("gt")),
                Operator::LessThan => return Err(unsupported("lt")),
            };
            object.match_expressions.push(Expression {
                key,
                operator,
                values: values(requirement),
            });
        }
        Ok(Some(object))
    }
}

fn values(requirement: &Requirement) -> Vec<&str> {
    requirement.values().collect()
}

fn unsupported(operator: &str) -> StatusError {
    let operator = Quoted(operator);
    StatusError::unclassified(format!("{operator} is not a valid label selector operator"))
}

/// The value of an external metric.
#[derive(Clone, Debug)]
pub struct ExternalItem<'a> {
    /// The labels of the series.
    pub labels: Option<&'a ItemLabels>,
    /// When the value was measured.
    pub timestamp: Timestamp,
    /// The time over which it was measured, in seconds.
    pub window_seconds: Option<i64>,
    /// The value.
    pub value: Quantity,
}

/// A list of values of an external metric. It serializes to the body of a response.
#[derive(Clone, Debug)]
pub struct ExternalList<'a> {
    /// The name of the metric.
    pub metric: &'a str,
    /// The values.
    pub items: Vec<ExternalItem<'a>>,
}

impl Serialize for ExternalList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items = self.items.iter().map(|item| EncodedExternalItem {
            metric_name: self.metric,
            metric_labels: item.labels,
            timestamp: Seconds(item.timestamp),
            window: item.window_seconds,
            value: &item.value,
        });
        let api_version = "external.metrics.k8s.io/v1beta1";
        list(serializer, "ExternalMetricValueList", api_version, &items.collect::<Vec<_>>())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EncodedExternalItem<'a> {
    metric_name: &'a str,
    metric_labels: Option<&'a ItemLabels>,
    timestamp: Seconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<i64>,
    value: &'a Quantity,
}

/// Serializes a list of a kind.
pub(crate) fn list<S: Serializer, T: Serialize>(
    serializer: S,
    kind: &str,
    api_version: &str,
    items: &[T],
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_struct("List", 4)?;
    list.serialize_field("kind", kind)?;
    list.serialize_field("apiVersion", api_version)?;
    list.serialize_field("metadata", &EmptyMetadata {})?;
    list.serialize_field("items", items)?;
    list.end()
}

#[derive(Serialize)]
pub(crate) struct EmptyMetadata {}

/// A time without fractions of a second, as the API has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Timestamp);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = self.0.as_millisecond().div_euclid(1000);
        let whole = Timestamp::from_second(seconds).unwrap_or(self.0);
        serializer.collect_str(&whole)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    fn custom(
        version: CustomVersion,
        selector: &Selector,
        window: Option<i64>,
    ) -> serde_json::Value {
        let value: Quantity = "500m".parse().unwrap();
        let timestamp = Timestamp::from_millisecond(1_700_000_001_999).unwrap();
        let item = CustomItem { name: "web-0", timestamp, window_seconds: window, value };
        let list = CustomList {
            version,
            kind: DescribedKind { group: "", version: "v1", kind: "Pod" },
            namespace: "shop",
            metric: "rps",
            selector: LabelSelector::new(selector).unwrap(),
            items: vec![item],
        };
        to_value(list).unwrap()
    }

    #[test]
    fn versions_of_custom_metrics_differ_in_three_fields() {
        let described =
            json!({ "kind": "Pod", "namespace": "shop", "name": "web-0", "apiVersion": "/v1" });
        let everything = Selector::everything();
        let expected = json!({
            "kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta1",
            "metadata": {}, "items": [{
                "describedObject": described, "metricName": "rps",
                "timestamp": "2023-11-14T22:13:21Z", "value": "500m", "selector": null,
            }],
        });
        assert_eq!(custom(CustomVersion::V1Beta1, &everything, None), expected);
        let expected = json!({
            "kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2",
            "metadata": {}, "items": [{
                "describedObject": described, "metric": { "name": "rps", "selector": null },
                "timestamp": "2023-11-14T22:13:21Z", "windowSeconds": 60, "value": "500m",
            }],
        });
        assert_eq!(custom(CustomVersion::V1Beta2, &everything, Some(60)), expected);
    }

    #[test]
    fn items_repeat_the_selector() {
        let selector = Selector::parse("a=1,a=2,b in (y,x),!c,d").unwrap();
        let list = custom(CustomVersion::V1Beta2, &selector, None);
        let expected = json!({
            "matchLabels": { "a": "2" },
            "matchExpressions": [
                { "key": "b", "operator": "In", "values": ["x", "y"] },
                { "key": "c", "operator": "DoesNotExist" },
                { "key": "d", "operator": "Exists" },
            ],
        });
        assert_eq!(list["items"][0]["metric"]["selector"], expected);
        let selector = Selector::parse("a!=1").unwrap();
        let error = LabelSelector::new(&selector).unwrap_err();
        assert_eq!(error.message, "\"!=\" is not a valid label selector operator");
    }

    #[test]
    fn scalars_have_no_labels() {
        let value: Quantity = "3".parse().unwrap();
        let item = ExternalItem {
            labels: None,
            timestamp: Timestamp::UNIX_EPOCH,
            window_seconds: None,
            value,
        };
        let list = to_value(ExternalList { metric: "queue", items: vec![item] }).unwrap();
        let expected = json!([{
            "metricName": "queue", "metricLabels": null, "timestamp": "1970-01-01T00:00:00Z",
            "value": "3",
        }]);
        assert_eq!(list["items"], expected);
    }
}
