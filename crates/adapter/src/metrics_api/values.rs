//! The lists of custom and external metrics.

use hpa_calc::{
    Quantity, Selector,
    go_text::Quoted,
    selector::{LabelSelector, LabelSelectorRequirement, Operator},
};
use hpa_metrics::{
    CustomQuery, CustomValues, ExternalValues,
    wire::{ItemLabels, MetricValue},
};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::metrics_api::status::StatusError;

/// A list object of the API. Serializes to the body of a response.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    kind: &'static str,
    api_version: &'static str,
    metadata: EmptyMetadata,
    pub(crate) items: Vec<T>,
}

impl<T> List<T> {
    pub(crate) fn new(kind: &'static str, api_version: &'static str, items: Vec<T>) -> Self {
        Self { kind, api_version, metadata: EmptyMetadata {}, items }
    }
}

/// The value of a custom metric of an object. The versions of the API differ in three fields.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomItem<'a> {
    described_object: DescribedObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<MetricIdentifier<'a>>,
    timestamp: WholeSeconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<i64>,
    value: Quantity,
    #[expect(clippy::option_option, reason = "v1beta1 has null, v1beta2 has no such field")]
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Option<&'a LabelSelector>>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DescribedObject<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    api_version: &'a str,
}

#[derive(Clone, Debug, Serialize)]
struct MetricIdentifier<'a> {
    name: &'a str,
    selector: Option<&'a LabelSelector>,
}

/// The values of a custom metric, with the fields that all items repeat.
#[derive(Clone, Debug)]
pub struct CustomList<'a> {
    version: &'static str,
    query: &'a CustomQuery,
    values: &'a CustomValues,
    object_version: String,
    selector: Option<LabelSelector>,
}

impl<'a> CustomList<'a> {
    pub fn new(
        version: &'static str,
        query: &'a CustomQuery,
        values: &'a CustomValues,
    ) -> Result<Self, StatusError> {
        let selector = match values.items.as_slice() {
            // Without items, the selector doesn't appear.
            [] => None,
            _ => label_selector(&query.metric_selector)?,
        };
        let kind = &values.object_kind;
        // As in prometheus-adapter, the core group has a slash: `/v1`.
        let object_version = format!("{}/{}", kind.resource.group, kind.version);
        Ok(Self { version, query, values, object_version, selector })
    }

    fn item<'s>(&'s self, value: &'s MetricValue) -> CustomItem<'s> {
        let (metric, selector) = (self.query.metric.as_str(), self.selector.as_ref());
        let is_v1beta1 = self.version == "v1beta1";
        let identifier = MetricIdentifier { name: metric, selector };
        CustomItem {
            described_object: DescribedObject {
                kind: &self.values.object_kind.kind,
                namespace: &self.query.namespace,
                name: &value.object,
                api_version: &self.object_version,
            },
            metric_name: is_v1beta1.then_some(metric),
            metric: (!is_v1beta1).then_some(identifier),
            timestamp: WholeSeconds(value.timestamp),
            window: value.window_seconds.filter(|_| is_v1beta1),
            window_seconds: value.window_seconds.filter(|_| !is_v1beta1),
            value: value.value.into(),
            selector: is_v1beta1.then_some(selector),
        }
    }

    pub fn document(&self) -> List<CustomItem<'_>> {
        let api_version = match self.version {
            "v1beta1" => "custom.metrics.k8s.io/v1beta1",
            _ => "custom.metrics.k8s.io/v1beta2",
        };
        let items = self.values.items.iter().map(|value| self.item(value));
        List::new("MetricValueList", api_version, items.collect())
    }
}

/// Converts a selector to the object that the items of a custom metric repeat. `None` for an empty
/// selector. Fails for operators that `LabelSelector` doesn't have. If several `=` requirements
/// have the same key, the last one is used.
fn label_selector(selector: &Selector) -> Result<Option<LabelSelector>, StatusError> {
    if selector.is_empty() {
        return Ok(None);
    }
    let mut object = LabelSelector::default();
    for requirement in selector.requirements() {
        let key = requirement.key().to_owned();
        let mut values = requirement.values().map(str::to_owned);
        let operator = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals => {
                object.match_labels.insert(key, values.next().unwrap_or_default());
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
        object.match_expressions.push(LabelSelectorRequirement {
            key,
            operator: operator.to_owned(),
            values: values.collect(),
            ..LabelSelectorRequirement::default()
        });
    }
    Ok(Some(object))
}

fn unsupported(operator: &str) -> StatusError {
    let operator = Quoted(operator);
    StatusError::unclassified(format!("{operator} is not a valid label selector operator"))
}

/// The value of an external metric.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalItem<'a> {
    metric_name: &'a str,
    metric_labels: Option<&'a ItemLabels>,
    timestamp: WholeSeconds,
    value: Quantity,
}

/// The values of an external metric.
pub fn external_list<'a>(metric: &'a str, values: &'a ExternalValues) -> List<ExternalItem<'a>> {
    let items = values.items.iter().map(|item| ExternalItem {
        metric_name: metric,
        metric_labels: item.labels.as_ref(),
        timestamp: WholeSeconds(item.timestamp),
        value: item.value.into(),
    });
    List::new("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", items.collect())
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct EmptyMetadata {}

/// A time, serialized without fractions of a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeSeconds(pub(crate) Timestamp);

impl Serialize for WholeSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Rounds down. `as_second` would round times before 1970 up.
        let seconds = self.0.as_millisecond().div_euclid(1000);
        let whole = Timestamp::from_second(seconds).unwrap_or(self.0);
        serializer.collect_str(&whole)
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::MilliValue;
    use hpa_metrics::{Objects, resource::GroupResource, wire::ExternalMetricValue};
    use serde_json::{json, to_value};

    use super::*;

    fn custom(
        version: &'static str,
        selector: &Selector,
        window_seconds: Option<i64>,
    ) -> serde_json::Value {
        let query = CustomQuery {
            resource: GroupResource::pods(),
            namespace: "shop".to_owned(),
            objects: Objects::Named("web-0".to_owned()),
            metric: "rps".to_owned(),
            metric_selector: selector.clone(),
        };
        let timestamp = Timestamp::from_millisecond(1_700_000_001_999).unwrap();
        let value = MilliValue::from_milli(500);
        let item = MetricValue { object: "web-0".into(), timestamp, window_seconds, value };
        let mut values = CustomValues { items: vec![item], ..CustomValues::default() };
        values.object_kind.version = "v1".to_owned();
        values.object_kind.kind = "Pod".to_owned();
        to_value(CustomList::new(version, &query, &values).unwrap().document()).unwrap()
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
        assert_eq!(custom("v1beta1", &everything, None), expected);
        let expected = json!({
            "kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2",
            "metadata": {}, "items": [{
                "describedObject": described, "metric": { "name": "rps", "selector": null },
                "timestamp": "2023-11-14T22:13:21Z", "windowSeconds": 60, "value": "500m",
            }],
        });
        assert_eq!(custom("v1beta2", &everything, Some(60)), expected);
    }

    #[test]
    fn items_repeat_the_selector() {
        let selector = Selector::parse("a=1,a=2,b in (y,x),!c,d").unwrap();
        let list = custom("v1beta2", &selector, None);
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
        let error = label_selector(&selector).unwrap_err();
        assert_eq!(error.message, "\"!=\" is not a valid label selector operator");
    }

    #[test]
    fn scalars_have_no_labels() {
        let (timestamp, value) = (Timestamp::UNIX_EPOCH, MilliValue::from_units(3));
        let item = ExternalMetricValue { labels: None, timestamp, value };
        let values = ExternalValues { items: vec![item], ..ExternalValues::default() };
        let list = to_value(external_list("queue", &values)).unwrap();
        let expected = json!([{
            "metricName": "queue", "metricLabels": null, "timestamp": "1970-01-01T00:00:00Z",
            "value": "3",
        }]);
        assert_eq!(list["items"], expected);
    }
}
