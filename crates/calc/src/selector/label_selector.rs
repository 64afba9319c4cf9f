//! The object form of a label selector.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{Operator, Requirement, Selector, SelectorError};
use crate::api::{UnknownFields, null_as_empty};

/// A meta/v1 `LabelSelector`. It matches objects that meet all of `match_labels` and
/// `match_expressions`. An empty one matches all objects.
///
/// `Display` prints the object like Go's `%v`, see [`go_string`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-map-type" = "atomic")))]
pub struct LabelSelector {
    /// Labels that an object must have, with these values.
    #[serde(deserialize_with = "null_as_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// More requirements.
    #[serde(deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A meta/v1 `LabelSelectorRequirement`: one of the `matchExpressions` of a label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// The key of the label.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub operator: String,
    /// The values: at least one for `In` and `NotIn`, none for the other operators.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub values: Vec<String>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl LabelSelector {
    /// Converts to a selector (`LabelSelectorAsSelector` in the API's Go library). The result is
    /// never [`Selector::nothing`]. The error is that of the first invalid requirement: labels in
    /// the order of their keys, then expressions. If all are valid, the limits of size are checked.
    pub fn to_selector(&self) -> Result<Selector, SelectorError> {
        let labels = self.match_labels.iter().map(|(key, value)| {
            Requirement::new(key, Operator::Equals, std::slice::from_ref(value))
        });
        let expressions = self.match_expressions.iter().map(|expression| {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            Requirement::new(&expression.key, operator, &expression.values)
        });
        Selector::from_requirements(labels.chain(expressions).collect::<Result<_, _>>()?)
    }
}

/// The text that Go prints for a pointer to the object with `%v`, as in messages of the reference
/// controller: `nil` for `None`.
pub fn go_string(selector: Option<&LabelSelector>) -> String {
    selector.map_or_else(|| "nil".to_owned(), ToString::to_string)
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &self.match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for LabelSelectorRequirement { key, operator, values, .. } in &self.match_expressions {
            let values = values.join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}")
    }
}
