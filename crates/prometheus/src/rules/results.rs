//! Converts query results to metric values.

use std::collections::{BTreeMap, HashMap};

use hpa_calc::MilliValue;

use crate::rules::{
    Compat,
    value::{custom_value, external_value},
};
use hpa_metrics::values::NoValue;

/// A sample of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    pub value: f64,
}

/// The result of an instant query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// An instant vector. `None` if its JSON is `null` or absent.
    Vector(Option<Vec<Sample>>),
    /// A number.
    Scalar {
        /// Milliseconds since the Unix epoch.
        timestamp_ms: i64,
        value: f64,
    },
    /// Another type, such as `matrix`, which a metric can't have.
    Other(String),
}

impl QueryResult {
    /// The samples of an instant vector. A vector whose JSON is `null` or absent has none.
    pub fn samples(&self) -> Result<&[Sample], ResultError> {
        match self {
            Self::Vector(samples) => Ok(samples.as_deref().unwrap_or_default()),
            Self::Scalar { .. } | Self::Other(_) => Err(ResultError::UnexpectedType),
        }
    }
}

/// A result that can't be converted to metrics, with prometheus-adapter's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The result has a type that the metric can't have.
    #[error("encountered an unexpected query result type")]
    UnexpectedType,
    /// The vector is `null` or absent.
    #[error("the provided input did not contain vector query results")]
    NoVector,
}

/// The value of a custom metric for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomItem<'a> {
    /// The name of the object.
    pub name: &'a str,
    /// The value, or the reason why there is none.
    pub value: Result<MilliValue, NoValue>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
}

/// A value of an external metric.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalItem<'a> {
    /// The labels. A scalar has none.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// The value, or the reason why there is none.
    pub value: Result<MilliValue, NoValue>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
}

/// The value and the time of each object's sample, by the object's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectSamples(HashMap<Box<str>, (f64, i64)>);

impl ObjectSamples {
    /// The samples of objects by the name in `label`. Samples without the label have an empty name.
    ///
    /// If an object has several samples, prometheus-adapter uses the last one, in an order that
    /// Prometheus doesn't specify. By default, the largest value is used, because repeated queries
    /// must agree.
    pub fn new(samples: &[Sample], label: &str, compat: Compat) -> Self {
        let mut by_name: HashMap<Box<str>, (f64, i64)> = HashMap::new();
        for Sample { labels, timestamp_ms, value } in samples {
            let name = labels.get(label).map_or("", String::as_str);
            match by_name.get_mut(name) {
                Some(other) if compat == Compat::Reference || is_larger(*value, other.0) => {
                    *other = (*value, *timestamp_ms);
                }
                Some(_) => {}
                None => _ = by_name.insert(name.into(), (*value, *timestamp_ms)),
            }
        }
        Self(by_name)
    }

    /// Adds the samples of other objects.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no object has a sample.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of the objects that have a sample, in the order of the names.
    pub fn items<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        compat: Compat,
    ) -> Vec<CustomItem<'a>> {
        let items = names.into_iter().filter_map(|name| {
            let (value, timestamp_ms) = *self.0.get(name)?;
            Some(CustomItem { name, value: custom_value(value, compat), timestamp_ms })
        });
        items.collect()
    }
}

/// Compares values. NaN is smaller than any number.
fn is_larger(value: f64, other: f64) -> bool {
    value > other || other.is_nan()
}

/// The values of an external metric, in the order of the result.
pub fn external_items(
    result: &QueryResult,
    compat: Compat,
) -> Result<Vec<ExternalItem<'_>>, ResultError> {
    match result {
        QueryResult::Vector(None) => Err(ResultError::NoVector),
        QueryResult::Vector(Some(samples)) => {
            let items = samples.iter().map(|sample| ExternalItem {
                labels: Some(&sample.labels),
                value: external_value(sample.value, compat),
                timestamp_ms: sample.timestamp_ms,
            });
            Ok(items.collect())
        }
        QueryResult::Scalar { timestamp_ms, value } => Ok(vec![ExternalItem {
            labels: None,
            value: external_value(*value, compat),
            timestamp_ms: *timestamp_ms,
        }]),
        QueryResult::Other(_) => Err(ResultError::UnexpectedType),
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Quantity, quantity::Format};

    use super::*;

    fn sample(pod: &str, value: f64) -> Sample {
        let labels = [("pod".to_owned(), pod.to_owned())].into();
        Sample { labels, timestamp_ms: 1000, value }
    }

    fn values(samples: &[Sample], compat: Compat) -> Vec<(&'static str, Option<String>)> {
        let samples = ObjectSamples::new(samples, "pod", compat);
        let items = samples.items(["b", "a", "missing"], compat);
        let text = |value| Quantity::from_milli(value, Format::DecimalSI).to_string();
        items.into_iter().map(|item| (item.name, item.value.ok().map(text))).collect()
    }

    #[test]
    fn objects_have_the_value_of_their_sample() {
        let samples = [sample("a", 1.0), sample("b", 2.5), sample("other", 3.0)];
        let expected = [("b", Some("2500m".to_owned())), ("a", Some("1".to_owned()))];
        assert_eq!(values(&samples, Compat::Off), expected);
    }

    #[test]
    fn largest_of_several_samples_is_taken() {
        let samples = [sample("a", f64::NAN), sample("a", 3.0), sample("a", 2.0)];
        assert_eq!(values(&samples, Compat::Off), [("a", Some("3".to_owned()))]);
        assert_eq!(values(&samples, Compat::Reference), [("a", Some("2".to_owned()))]);
    }

    #[test]
    fn samples_without_a_value_are_reported() {
        assert_eq!(values(&[sample("a", f64::NAN)], Compat::Off), [("a", None)]);
    }

    #[test]
    fn external_metrics_are_vectors_or_scalars() {
        let vector = QueryResult::Vector(Some(vec![sample("a", 1.0)]));
        assert_eq!(external_items(&vector, Compat::Off).unwrap().len(), 1);
        let scalar = QueryResult::Scalar { timestamp_ms: 5, value: 2.0 };
        assert_eq!(external_items(&scalar, Compat::Off).unwrap()[0].labels, None);
        let empty = QueryResult::Vector(Some(Vec::new()));
        assert_eq!(external_items(&empty, Compat::Off), Ok(Vec::new()));
        let matrix = QueryResult::Other("matrix".to_owned());
        assert_eq!(external_items(&matrix, Compat::Off), Err(ResultError::UnexpectedType));
        let null = QueryResult::Vector(None);
        assert_eq!(external_items(&null, Compat::Off), Err(ResultError::NoVector));
    }
}
