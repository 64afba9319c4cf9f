//! The other forms of pod and node metrics: tables, and metadata alone.

use hpa_calc::{MilliValue, Quantity, quantity::Format};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::metrics_api::{
    accept::Conversion,
    query::Query,
    status::StatusError,
    usage::{Metadata, Metrics, MetricsKind, MetricsList, MetricsObject, Usage, Values},
    values::EmptyMetadata,
};

/// What the rows of a table contain besides the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    None,
    Metadata,
    Object,
}

/// A response for metrics, in the form that the client asked for. It serializes to the body.
#[derive(Debug)]
pub struct Converted<'a>(Form<'a>);

#[derive(Debug)]
enum Form<'a> {
    Object(MetricsObject<'a>),
    List(MetricsList<'a>),
    Table { version: String, include: Include, kind: MetricsKind, rows: Vec<Metrics<'a>> },
    Metadata { version: String, metrics: Metrics<'a> },
    MetadataList { version: String, items: Vec<Metrics<'a>> },
}

impl<'a> Converted<'a> {
    /// Converts a list.
    pub fn from_list(
        list: MetricsList<'a>,
        conversion: Option<&Conversion>,
        query: &Query,
    ) -> Result<Self, StatusError> {
        let Some(Conversion { kind, version, .. }) = conversion else {
            return Ok(Self(Form::List(list)));
        };
        let version = format!("meta.k8s.io/{version}");
        match kind.as_str() {
            "Table" => {
                let include = include(query)?;
                Ok(Self(Form::Table { version, include, kind: list.kind, rows: list.items }))
            }
            "PartialObjectMetadataList" => {
                Ok(Self(Form::MetadataList { version, items: list.items }))
            }
            _ => Err(StatusError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list \
                 (*metrics.{})",
                list.kind.list()
            ))),
        }
    }

    /// Converts an object.
    pub fn from_object(
        object: MetricsObject<'a>,
        conversion: Option<&Conversion>,
        query: &Query,
    ) -> Result<Self, StatusError> {
        let Some(Conversion { kind, version, .. }) = conversion else {
            return Ok(Self(Form::Object(object)));
        };
        let version = format!("meta.k8s.io/{version}");
        match kind.as_str() {
            "Table" => {
                let (include, kind) = (include(query)?, object.kind);
                Ok(Self(Form::Table { version, include, kind, rows: vec![object.metrics] }))
            }
            "PartialObjectMetadata" => {
                Ok(Self(Form::Metadata { version, metrics: object.metrics }))
            }
            _ => Err(StatusError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 (*metrics.{})",
                object.kind.object()
            ))),
        }
    }
}

/// An error if the client asks for metadata of external metrics, which have none. The reference
/// finds out when it converts the first item.
pub fn check_external(
    conversion: Option<&Conversion>,
    has_items: bool,
) -> Result<Option<EmptyMetadataList>, StatusError> {
    let Some(Conversion { kind, version, .. }) = conversion else { return Ok(None) };
    if kind == "PartialObjectMetadata" {
        return Err(StatusError::not_acceptable(
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*external_metrics.ExternalMetricValueList)",
        ));
    }
    if has_items {
        return Err(StatusError::unclassified("object does not implement the Object interfaces"));
    }
    Ok(Some(EmptyMetadataList { version: format!("meta.k8s.io/{version}") }))
}

/// A list of metadata without items.
#[derive(Clone, Debug)]
pub struct EmptyMetadataList {
    version: String,
}

impl Serialize for EmptyMetadataList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = Form::MetadataList { version: self.version.clone(), items: Vec::new() };
        Converted(list).serialize(serializer)
    }
}

fn include(query: &Query) -> Result<Include, StatusError> {
    match query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        other => Err(StatusError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
             'Metadata', 'Object', 'None', or empty",
            hpa_calc::go_text::Quoted(other)
        ))),
    }
}

impl Serialize for Converted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Form::Object(object) => object.serialize(serializer),
            Form::List(list) => list.serialize(serializer),
            Form::Table { version, include, kind, rows } => {
                let rows = rows.iter().map(|row| Row::new(row, version, *include, *kind));
                Table {
                    kind: "Table",
                    api_version: version,
                    metadata: EmptyMetadata {},
                    // The reference has `null` in a table without rows.
                    column_definitions: (rows.len() > 0).then_some(COLUMNS),
                    rows: (rows.len() > 0).then(|| rows.collect()),
                }
                .serialize(serializer)
            }
            Form::Metadata { version, metrics } => {
                PartialObject { version, metadata: &metrics.metadata }.serialize(serializer)
            }
            Form::MetadataList { version, items } => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| PartialObject { version, metadata: &item.metadata })
                    .collect();
                let kind = "PartialObjectMetadataList";
                crate::metrics_api::values::list(serializer, kind, version, &items)
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    kind: &'static str,
    api_version: &'a str,
    metadata: EmptyMetadata,
    column_definitions: Option<[Column; 4]>,
    rows: Option<Vec<Row<'a>>>,
}

#[derive(Clone, Copy, Serialize)]
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

#[derive(Serialize)]
struct Row<'a> {
    cells: [String; 4],
    object: Option<RowObject<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'a> {
    Metadata(PartialObject<'a>),
    Object(MetricsObject<'a>),
}

impl<'a> Row<'a> {
    fn new(
        metrics: &'a Metrics<'_>,
        version: &'a str,
        include: Include,
        kind: MetricsKind,
    ) -> Self {
        let [cpu, memory] = total(&metrics.values);
        let object = match include {
            Include::None => None,
            Include::Metadata => {
                Some(RowObject::Metadata(PartialObject { version, metadata: &metrics.metadata }))
            }
            Include::Object => {
                Some(RowObject::Object(MetricsObject { kind, metrics: metrics.clone() }))
            }
        };
        let name = metrics.metadata.name.to_owned();
        Self { cells: [name, cpu, memory, metrics.window_text()], object }
    }
}

/// CPU and memory of a node, or of all containers of a pod. Empty if one of them lacks it.
fn total(values: &Values<'_>) -> [String; 2] {
    let usage: Vec<&Usage> = match values {
        Values::Node(usage) => vec![usage],
        Values::Pod(containers) => containers.iter().map(|container| &container.usage).collect(),
    };
    let cpu = sum(usage.iter().map(|usage| usage.cpu.as_ref()), Format::DecimalSI);
    let memory = sum(usage.iter().map(|usage| usage.memory.as_ref()), Format::BinarySI);
    [cpu, memory].map(|total| total.map(|total| total.to_string()).unwrap_or_default())
}

/// Nanos in a milli-unit.
const NANOS: i128 = 1_000_000;

/// The exact sum. Values have no digits after thousandths.
fn sum<'q>(values: impl Iterator<Item = Option<&'q Quantity>>, format: Format) -> Option<Quantity> {
    let milli = values.map(|value| Some(value?.nano_value() / NANOS)).sum::<Option<i128>>()?;
    Some(match i64::try_from(milli) {
        Ok(milli) => Quantity::from_milli(MilliValue::from_milli(milli), format),
        // The text of a sum that needs more than 64 bits is always a quantity.
        Err(_) => format!("{milli}m").parse().unwrap_or_default(),
    })
}

/// The metadata of an object, without the rest.
#[derive(Debug)]
struct PartialObject<'a> {
    version: &'a str,
    metadata: &'a Metadata<'a>,
}

impl Serialize for PartialObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("PartialObjectMetadata", 3)?;
        object.serialize_field("kind", "PartialObjectMetadata")?;
        object.serialize_field("apiVersion", self.version)?;
        object.serialize_field("metadata", self.metadata)?;
        object.end()
    }
}
