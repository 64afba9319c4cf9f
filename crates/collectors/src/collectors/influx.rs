//! Reads a value from `InfluxDB` 2 with a Flux query: the column `metricvalue` of the first row.

use async_trait::async_trait;
use csv::{ReaderBuilder, StringRecord};
use hpa_calc::MilliValue;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::{
    Compat,
    clients::add_credential,
    collector::{Collector, Context, Environment, Server, Values, to_milli},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError},
    guarded_http::{Destination, HttpRequest, Reply, http_error, url},
    settings::{Credential, Secret},
};

/// The name in errors.
const DISPLAY_NAME: &str = "InfluxDB";
/// The name in `Settings::services` and in permissions.
const SERVICE_KEY: &str = "influxdb";

/// A query, and the settings that override those of the operator.
#[derive(Clone, Debug)]
pub(crate) struct FluxQuery {
    query: String,
    address: Option<String>,
    token: Option<Secret>,
    org: Option<String>,
}

#[async_trait]
impl Collector for FluxQuery {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let query = match (metric.value("query-name"), metric.value("query")) {
            (Some(name), _) => {
                let query = metric.value(name);
                query.ok_or_else(|| ConfigError::NoFluxQuery(metric.metric.name.clone()))?
            }
            // kube-metrics-adapter documents this key, but doesn't accept it.
            (None, Some(query)) if environment.compat == Compat::Off => query,
            (None, _) => {
                return Err(ConfigError::new(
                    "selector for Flux query is not specified, please add \
                     metricSelector.matchLabels.query-name: <...> to .yml description",
                ));
            }
        };
        let value = |name: &str| metric.value(name).map(str::to_owned);
        Ok(Self {
            query: query.to_owned(),
            address: value("address"),
            token: value("token").map(Secret::new),
            org: value("org"),
        })
    }

    fn servers(&self) -> Vec<Server> {
        let operator = || Server::Operator(SERVICE_KEY.to_owned());
        vec![self.address.clone().map_or_else(operator, Server::Url)]
    }

    /// Returns the value of the response. kube-metrics-adapter reports 0 instead, even with a
    /// value. Compatibility doesn't reproduce this defect.
    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let clients = context.clients;
        let request = self.request(context)?;
        let body = json!({
            "query": self.query,
            "type": "flux",
            "dialect": {
                "annotations": ["datatype", "group", "default"], "delimiter": ",", "header": true,
            },
        });
        let csv = HeaderValue::from_static("application/csv");
        let request =
            request.header(header::ACCEPT, csv).post("application/json", body.to_string());
        let reply = context.send(&request).await?;
        if reply.status != StatusCode::OK {
            return Err(refusal(&request, &reply));
        }
        let value = metric_value(&reply.body)
            .map_err(|problem| FetchError::Response { service: DISPLAY_NAME, problem })?;
        Ok(context.single(MilliValue::from_milli(to_milli(value, clients.compat)?)))
    }
}

impl FluxQuery {
    fn request(&self, context: &Context<'_>) -> Result<HttpRequest, FetchError> {
        let clients = context.clients;
        if self.token.is_some() && clients.compat == Compat::Off {
            return Err(FetchError::TokenInAnnotation);
        }
        let tenant_token = self.token.clone().map(Credential::Text);
        let service = clients.service(SERVICE_KEY);
        let default_org = service.map(|service| service.org.as_str()).unwrap_or_default();
        let org = self.org.as_deref().unwrap_or(default_org);
        let request_to = |base, destination| {
            let uri = url::with_path(base, "/api/v2/query", &[("org", org)]);
            uri.map(|uri| context.request(uri, destination))
        };
        let Some(address) = &self.address else {
            let service = service.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
            let request = request_to(&service.url, Destination::Operator);
            let request = request.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
            let token = tenant_token.as_ref().or(service.token.as_ref());
            return add_credential(request, "Token", token);
        };
        let invalid = || FetchError::setting("address", address);
        let base = url::parse(address).map_err(|_| invalid())?;
        let request = request_to(&base, Destination::Tenant).ok_or_else(invalid)?;
        match &tenant_token {
            Some(token) => add_credential(request, "Token", Some(token)),
            // Not the token of the operator's InfluxDB: the tenant's server would receive it.
            None => clients.with_credential(request, "Token"),
        }
    }
}

/// The error for an unsuccessful response. It doesn't contain the server's message, because a query
/// can copy other tenants' data into the message.
fn refusal(request: &HttpRequest, reply: &Reply) -> FetchError {
    if reply.status == StatusCode::BAD_REQUEST && request.destination == Destination::Operator {
        let reason = "the query is invalid or failed";
        return FetchError::QueryRefused { service: DISPLAY_NAME, reason };
    }
    http_error(&request.uri, HttpError::Status(reply.status))
}

const COLUMN: &str = "metricvalue";

/// The types, default values and names of the columns, as far as they have been read.
#[derive(Default)]
struct Table {
    types: StringRecord,
    defaults: StringRecord,
    header: Option<StringRecord>,
}

/// Decodes the annotated CSV of `InfluxDB`. Returns the cell `metricvalue` of the first row.
fn metric_value(bytes: &[u8]) -> Result<f64, &'static str> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut table = Table::default();
    for record in reader.records() {
        let record = record.map_err(|_| "it is not CSV")?;
        let annotation = record.get(0).unwrap_or_default();
        if annotation.starts_with('#') {
            // Annotations after a header belong to the next table.
            if table.header.is_some() {
                table = Table::default();
            }
            match annotation {
                "#datatype" => table.types = record,
                "#default" => table.defaults = record,
                _ => {}
            }
        } else if table.header.is_none() {
            table.header = Some(record);
        } else {
            return table.value(&record);
        }
    }
    Err("empty result returned")
}

impl Table {
    fn value(&self, row: &StringRecord) -> Result<f64, &'static str> {
        let header = self.header.iter().flatten();
        let mut names = header.enumerate();
        let Some((index, name)) = names.find(|(_, name)| matches!(*name, COLUMN | "error")) else {
            return Err("the result has no column metricvalue");
        };
        if name == "error" {
            return Err("the query failed while it was evaluated");
        }
        let cell = row.get(index).filter(|cell| !cell.is_empty());
        let cell = cell.or_else(|| self.defaults.get(index)).unwrap_or_default();
        match self.types.get(index).unwrap_or_default() {
            "double" | "long" | "unsignedLong" => {}
            _ => return Err("the column metricvalue is not a number"),
        }
        if cell.is_empty() {
            return Err("the column metricvalue is null");
        }
        cell.parse().map_err(|_| "the column metricvalue is not a number")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HEAD: &str = "#datatype,string,long,double\r\n#group,false,false,false\r\n\
                        #default,_result,,\r\n,result,table,metricvalue\r\n";

    #[rstest]
    #[case::float(",,0,2.5\r\n,,0,9\r\n", Ok(2.5))]
    #[case::not_a_number(",,0,x\r\n", Err("the column metricvalue is not a number"))]
    #[case::null(",,0,\r\n", Err("the column metricvalue is null"))]
    #[case::short_row(",,0\r\n", Err("the column metricvalue is null"))]
    #[case::no_row("\r\n", Err("empty result returned"))]
    fn value_is_in_the_first_row(#[case] rows: &str, #[case] expected: Result<f64, &'static str>) {
        assert_eq!(metric_value(format!("{HEAD}{rows}").as_bytes()), expected);
    }

    #[rstest]
    #[case::long("#datatype,string,long\n#default,_result,\n,result,metricvalue\n,,7\n", Ok(7.0))]
    #[case::default(
        "#datatype,string,long\n#default,_result,4\n,result,metricvalue\n,,\n",
        Ok(4.0)
    )]
    #[case::quoted(
        "#datatype,string,string,double\n#default,,,\n,note,x,metricvalue\n\
         ,\"a,\n\"\"b\"\"\",y,3\n",
        Ok(3.0)
    )]
    #[case::text(
        "#datatype,string,string\n#default,,\n,result,metricvalue\n,,7\n",
        Err("the column metricvalue is not a number")
    )]
    #[case::other_column(
        "#datatype,string,double\n#default,,\n,result,_value\n,,7\n",
        Err("the result has no column metricvalue")
    )]
    #[case::error(
        "#datatype,string,string\n#default,,\n,error,reference\n,secret,897\n",
        Err("the query failed while it was evaluated")
    )]
    #[case::nothing("", Err("empty result returned"))]
    #[case::html("<html>\n<body>\n", Err("the result has no column metricvalue"))]
    fn tables_are_decoded(#[case] csv: &str, #[case] expected: Result<f64, &'static str>) {
        assert_eq!(metric_value(csv.as_bytes()), expected);
    }

    #[test]
    fn value_is_in_a_later_table_if_the_first_is_empty() {
        let table = "#datatype,string,long\n#group,false,false\n#default,,\n,result,metricvalue\n";
        assert_eq!(metric_value(format!("{table}\n{table},,5\n").as_bytes()), Ok(5.0));
    }
}
