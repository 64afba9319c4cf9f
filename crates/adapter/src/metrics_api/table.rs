//! Converts responses to tables and partial metadata.

use hpa_calc::{MilliValue, Quantity, go_text::Quoted, quantity::Format};
use serde::Serialize;

use crate::metrics_api::{
    accept::Conversion,
    query::UrlQuery,
    status::StatusError,
    usage::{Metadata, MetricsKind, ObjectMetrics, Usage},
    values::{EmptyMetadata, List},
};

/// The parameter `includeObject`: the object in each row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// A response for metrics, converted as requested. Serializes to the body.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ConvertedResponse<'a> {
    Object(ObjectMetrics<'a>),
    List(List<ObjectMetrics<'a>>),
    Table(Table<'a>),
    Metadata(PartialObject<'a>),
    MetadataList(List<PartialObject<'a>>),
}

impl<'a> ConvertedResponse<'a> {
    pub fn from_list(
        kind: MetricsKind,
        items: Vec<ObjectMetrics<'a>>,
        conversion: Option<&Conversion>,
        query: &UrlQuery,
    ) -> Result<Self, StatusError> {
        let Some(conversion) = conversion else { return Ok(Self::List(kind.list_of(items))) };
        let version = api_version(conversion);
        match conversion.kind.as_str() {
            "Table" => Ok(Self::Table(Table::new(version, kind, items, include_object(query)?))),
            "PartialObjectMetadataList" => Ok(Self::metadata_list(version, &items)),
            _ => Err(StatusError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list \
                 (*metrics.{})",
                kind.list
            ))),
        }
    }

    pub fn from_object(
        kind: MetricsKind,
        metrics: ObjectMetrics<'a>,
        conversion: Option<&Conversion>,
        query: &UrlQuery,
    ) -> Result<Self, StatusError> {
        let Some(conversion) = conversion else { return Ok(Self::Object(metrics.with_kind(kind))) };
        let version = api_version(conversion);
        match conversion.kind.as_str() {
            "Table" => {
                Ok(Self::Table(Table::new(version, kind, vec![metrics], include_object(query)?)))
            }
            "PartialObjectMetadata" => {
                Ok(Self::Metadata(PartialObject::new(version, metrics.metadata)))
            }
            _ => Err(StatusError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 (*metrics.{})",
                kind.object
            ))),
        }
    }

    fn metadata_list(version: &'static str, items: &[ObjectMetrics<'a>]) -> Self {
        let items = items.iter().map(|item| PartialObject::new(version, item.metadata));
        Self::MetadataList(List::new("PartialObjectMetadataList", version, items.collect()))
    }

    /// External metrics have no metadata: if a client requests it, only an empty list can be
    /// converted, as in prometheus-adapter. `None` without a conversion.
    pub fn from_external(
        conversion: Option<&Conversion>,
        has_items: bool,
    ) -> Result<Option<Self>, StatusError> {
        let Some(conversion) = conversion else { return Ok(None) };
        if conversion.kind == "PartialObjectMetadata" {
            return Err(StatusError::not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list \
                 (*external_metrics.ExternalMetricValueList)",
            ));
        }
        if has_items {
            let message = "object does not implement the Object interfaces";
            return Err(StatusError::unclassified(message));
        }
        Ok(Some(Self::metadata_list(api_version(conversion), &[])))
    }
}

/// The `meta.k8s.io` version of a conversion.
fn api_version(conversion: &Conversion) -> &'static str {
    match conversion.version.as_str() {
        "v1beta1" => "meta.k8s.io/v1beta1",
        _ => "meta.k8s.io/v1",
    }
}

fn include_object(query: &UrlQuery) -> Result<IncludeObject, StatusError> {
    match query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "None" => Ok(IncludeObject::None),
        "Object" => Ok(IncludeObject::Object),
        other => Err(StatusError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
             'Metadata', 'Object', 'None', or empty",
            Quoted(other)
        ))),
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: EmptyMetadata,
    column_definitions: Option<[Column; 4]>,
    rows: Option<Vec<Row<'a>>>,
}

impl<'a> Table<'a> {
    fn new(
        api_version: &'static str,
        kind: MetricsKind,
        items: Vec<ObjectMetrics<'a>>,
        include: IncludeObject,
    ) -> Self {
        let row = |metrics| Row::new(metrics, api_version, include, kind);
        let rows: Vec<_> = items.into_iter().map(row).collect();
        Self {
            kind: "Table",
            api_version,
            metadata: EmptyMetadata {},
            // prometheus-adapter has `null` in a table without rows.
            column_definitions: (!rows.is_empty()).then_some(COLUMNS),
            rows: (!rows.is_empty()).then_some(rows),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Column {
    name: &'static str,
    r#type: &'static str,
    format: &'static str,
    description: &'static str,
    priority: u8,
}

impl Column {
    const fn new(name: &'static str, format: &'static str, description: &'static str) -> Self {
        Self { name, r#type: "string", format, description, priority: 0 }
    }
}

const COLUMNS: [Column; 4] = [
    Column::new("Name", "name", "Name of the resource"),
    Column::new("cpu", "quantity", ""),
    Column::new("memory", "quantity", ""),
    Column::new("Window", "duration", ""),
];

#[derive(Debug, Serialize)]
struct Row<'a> {
    cells: [String; 4],
    object: Option<ConvertedResponse<'a>>,
}

impl<'a> Row<'a> {
    fn new(
        metrics: ObjectMetrics<'a>,
        version: &'static str,
        include: IncludeObject,
        kind: MetricsKind,
    ) -> Self {
        let name = metrics.metadata.name.to_owned();
        let [cpu, memory] = total(&metrics);
        let cells = [name, cpu, memory, metrics.window.clone()];
        let object = match include {
            IncludeObject::None => None,
            IncludeObject::Metadata => {
                Some(ConvertedResponse::Metadata(PartialObject::new(version, metrics.metadata)))
            }
            IncludeObject::Object => Some(ConvertedResponse::Object(metrics.with_kind(kind))),
        };
        Self { cells, object }
    }
}

/// CPU and memory of a node, or the sums of a pod's containers. Empty if a container has none.
fn total(metrics: &ObjectMetrics<'_>) -> [String; 2] {
    let containers = metrics.containers.iter().flatten().map(|container| &container.usage);
    let usage: Vec<&Usage> = containers.chain(&metrics.usage).collect();
    let cpu = sum(usage.iter().map(|usage| usage.cpu.as_ref()), Format::DecimalSI);
    let memory = sum(usage.iter().map(|usage| usage.memory.as_ref()), Format::BinarySI);
    [cpu, memory].map(|total| total.map(|total| total.to_string()).unwrap_or_default())
}

const NANOS_PER_MILLI: i128 = 1_000_000;

/// The exact sum, if no value is missing. Values are multiples of thousandths.
fn sum<'q>(values: impl Iterator<Item = Option<&'q Quantity>>, format: Format) -> Option<Quantity> {
    let milli =
        values.map(|value| Some(value?.nano_value() / NANOS_PER_MILLI)).sum::<Option<i128>>()?;
    match i64::try_from(milli) {
        Ok(milli) => Some(Quantity::from_milli(MilliValue::from_milli(milli), format)),
        // The sum has more than 64 bits.
        Err(_) => format!("{milli}m").parse().ok(),
    }
}

/// Only the metadata of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObject<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
}

impl<'a> PartialObject<'a> {
    fn new(api_version: &'static str, metadata: Metadata<'a>) -> Self {
        Self { kind: "PartialObjectMetadata", api_version, metadata }
    }
}
