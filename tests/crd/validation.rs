//! Validates specs by dry runs on the API server.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, anyhow};
use hpa_calc::{api::HorizontalPodAutoscalerSpec, defaults::apply_defaults};
use kube::Client;
use serde_json::{Value, json};

const NAME: &str = "web";
/// The `field` of a cause that has none.
const NO_FIELD: &str = "<nil>";

/// The core API or the custom API.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group {
    Core,
    Custom,
}

impl Group {
    fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Custom => hpa_calc::crd::API_VERSION,
        }
    }

    fn path(self) -> String {
        format!("/apis/{}/namespaces/default/{}", self.api_version(), hpa_calc::crd::PLURAL)
    }
}

/// The result of a dry run.
#[derive(Debug)]
pub(crate) enum Validation {
    /// The spec as a controller reads it.
    Accepted(Box<HorizontalPodAutoscalerSpec>),
    /// Status code, named fields and message.
    Rejected { code: u64, fields: BTreeSet<String>, message: String },
}

impl Validation {
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }

    pub(crate) fn fields(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::Accepted(_) => None,
            Self::Rejected { fields, .. } => Some(fields),
        }
    }

    /// Whether the server skipped validation rules.
    pub(crate) fn is_cut_short(&self) -> bool {
        let marker = "some validation rules were not checked";
        matches!(self, Self::Rejected { message, .. } if message.contains(marker))
    }

    /// Describes the difference, if there is one. All rejections are equal.
    pub(crate) fn difference_from(&self, expected: &Self) -> Option<String> {
        match (self, expected) {
            (Self::Accepted(spec), Self::Accepted(expected)) if spec == expected => None,
            (Self::Rejected { .. }, Self::Rejected { .. }) => None,
            _ => Some(format!("expected {expected:?}, got {self:?}")),
        }
    }
}

/// Creates an object with this spec in a dry run.
pub(crate) async fn validate(client: &Client, group: Group, spec: &Value) -> Result<Validation> {
    let object = json!({
        "apiVersion": group.api_version(), "kind": hpa_calc::crd::KIND,
        "metadata": { "name": NAME }, "spec": spec,
    });
    let request = http::Request::post(format!("{}?dryRun=All", group.path()))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&object)?)?;
    match client.request::<Value>(request).await {
        Ok(stored) => accepted(&stored["spec"]),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            Ok(Validation::Rejected {
                code: status.code.into(),
                fields: causes
                    .map(|cause| cause.field.clone())
                    .filter(|field| field != NO_FIELD)
                    .collect(),
                message: status.message,
            })
        }
        Err(error) => Err(anyhow!(error)),
    }
}

/// The result in a recorded line of `hpa_admission`.
pub(crate) fn from_recorded_line(line: &Value) -> Validation {
    if line["status"] == 201 {
        return accepted(&line["spec"]).expect("a spec");
    }
    let causes = line["causes"].as_array().into_iter().flatten();
    Validation::Rejected {
        code: line["status"].as_u64().unwrap_or_default(),
        fields: causes.filter_map(|cause| cause["field"].as_str()).map(str::to_owned).collect(),
        message: line["message"].as_str().unwrap_or_default().to_owned(),
    }
}

fn accepted(spec: &Value) -> Result<Validation> {
    let mut spec: HorizontalPodAutoscalerSpec =
        serde_json::from_value(spec.clone()).context("the stored spec")?;
    // The controller applies defaults that a schema can't express.
    apply_defaults(&mut spec);
    Ok(Validation::Accepted(Box::new(spec)))
}

/// Stores an object with its status, and returns the row that `kubectl get` prints, by column.
pub(crate) async fn print_table_row(client: &Client, object: &Value) -> Result<Value> {
    let path = Group::Custom.path();
    let send = async |request: http::request::Builder, body: Vec<u8>| {
        let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body)?;
        anyhow::Ok(client.request::<Value>(request).await?)
    };
    let mut stored = send(http::Request::post(&path), serde_json::to_vec(object)?).await?;
    stored["status"] = object["status"].clone();
    send(http::Request::put(format!("{path}/{NAME}/status")), serde_json::to_vec(&stored)?).await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let get = http::Request::get(format!("{path}/{NAME}")).header(http::header::ACCEPT, accept);
    let table = send(get, Vec::new()).await?;
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
    Ok(columns
        .zip(cells)
        .map(|(column, cell)| {
            (column["name"].as_str().unwrap_or_default().to_owned(), cell.clone())
        })
        .collect())
}
