//! Evaluates the recorded responses of the metrics APIs as the metrics client does.

use hpa_calc::{
    api::ResourceName,
    readings::{ReadError, Reading},
    selector::Selector,
};
use hpa_metrics::wire::{
    ExternalMetricValue, ListItem, external_values, object_value, pod_samples, resource_samples,
};
use serde::Deserialize;
use serde_json::Value;

/// Decodes the items of a list. `null` is an empty list.
fn items<I: ListItem>(items: &Value) -> Vec<I> {
    Option::<Vec<I>>::deserialize(items).expect("items that decode").unwrap_or_default()
}

pub(crate) fn resource(
    response: &Value,
    resource: &ResourceName,
    container: Option<&str>,
) -> Result<Reading, ReadError> {
    resource_samples(&items(response), resource, container).map(Reading::Pods)
}

pub(crate) fn pods(response: &Value) -> Result<Reading, ReadError> {
    pod_samples(&items(response)).map(Reading::Pods)
}

pub(crate) fn object(response: &Value) -> Result<Reading, ReadError> {
    object_value(&items(response)).map(Reading::Object)
}

/// Evaluates the items that the metric's selector matches. An absent selector
/// ([`Selector::is_nothing`]) matches all: its string in the request is empty.
pub(crate) fn external(response: &Value, selector: &Selector) -> Result<Reading, ReadError> {
    let selected = |item: &ExternalMetricValue| {
        let labels = item.labels.clone().unwrap_or_default();
        selector.is_nothing() || selector.matches(&labels)
    };
    let mut items = items(response);
    items.retain(selected);
    external_values(&items).map(Reading::External)
}
