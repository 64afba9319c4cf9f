//! Paths and parameters of the debug API.

use hpa_adapter::metrics_api::UrlQuery;
use hpa_controller::{AutoscalerApi, HpaKey, debug::ListFilter};
use jiff::Timestamp;

/// The default for the maximum number of autoscalers in a list.
const DEFAULT_LIMIT: usize = 1000;
const MAX_LIMIT: usize = 10_000;

/// A document of the debug API, with its parameters.
#[derive(Debug)]
pub(super) enum Route {
    Status,
    Autoscalers(ListFilter),
    Autoscaler { key: HpaKey, since: Option<Timestamp> },
}

impl Route {
    /// Parses a path and its query. `None` if the path doesn't exist. The error describes an
    /// invalid parameter.
    pub(super) fn parse(path: &str, query: &str) -> Result<Option<Self>, String> {
        let Some(path) = path.strip_prefix("/debug/v1/") else { return Ok(None) };
        let query = UrlQuery::parse(query);
        let parameter = |name| query.get(name).filter(|value| !value.is_empty());
        Ok(match path.split('/').collect::<Vec<_>>().as_slice() {
            ["status"] => Some(Self::Status),
            ["autoscalers"] => Some(Self::Autoscalers(ListFilter {
                namespace: parameter("namespace").map(ToOwned::to_owned),
                limit: parse_limit(parameter("limit"))?,
                after: parameter("continue").map(ToOwned::to_owned),
            })),
            ["autoscalers", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                let key = HpaKey::for_api(parse_api(parameter("api"))?, *namespace, *name);
                Some(Self::Autoscaler { key, since: parse_since(parameter("since"))? })
            }
            _ => None,
        })
    }
}

fn parse_limit(text: Option<&str>) -> Result<usize, String> {
    let Some(text) = text else { return Ok(DEFAULT_LIMIT) };
    match text.parse() {
        Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        _ => Err(format!("limit must be a number from 1 to {MAX_LIMIT}")),
    }
}

fn parse_api(text: Option<&str>) -> Result<AutoscalerApi, String> {
    let Some(text) = text else { return Ok(AutoscalerApi::Core) };
    let named = AutoscalerApi::ALL.into_iter().find(|api| api.name() == text);
    named.ok_or_else(|| "api must be core or custom".to_owned())
}

fn parse_since(text: Option<&str>) -> Result<Option<Timestamp>, String> {
    let error = |_| "since must be a time such as 2026-01-31T12:00:00Z".to_owned();
    text.map(str::parse).transpose().map_err(error)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match Route::parse(path, query) {
            Ok(Some(Route::Status)) => "status".to_owned(),
            Ok(Some(Route::Autoscalers(ListFilter { namespace, limit, after }))) => {
                format!("list {namespace:?} {limit} {after:?}")
            }
            Ok(Some(Route::Autoscaler { key, since })) => format!("{key} {since:?}"),
            Ok(None) => "none".to_owned(),
            Err(error) => error,
        }
    }

    #[rstest]
    #[case("/debug/v1/status", "status")]
    #[case("/debug/v1/status/", "none")]
    #[case("/debug/v2/status", "none")]
    #[case("/debug/v1/%73tatus", "none")]
    #[case("/metrics", "none")]
    #[case("/debug/v1/autoscalers", "list None 1000 None")]
    #[case(
        "/debug/v1/autoscalers?namespace=shop&limit=10000&continue=shop%2Fweb%2Fcore",
        "list Some(\"shop\") 10000 Some(\"shop/web/core\")"
    )]
    #[case("/debug/v1/autoscalers?limit=0", "limit must be a number from 1 to 10000")]
    #[case("/debug/v1/autoscalers?limit=10001", "limit must be a number from 1 to 10000")]
    #[case("/debug/v1/autoscalers/shop/web", "shop/web None")]
    #[case("/debug/v1/autoscalers/shop/web?api=custom", "rhpa/shop/web None")]
    #[case("/debug/v1/autoscalers/shop/web?api=v1", "api must be core or custom")]
    #[case("/debug/v1/autoscalers/shop/", "none")]
    #[case("/debug/v1/autoscalers/shop/web/x", "none")]
    #[case(
        "/debug/v1/autoscalers/shop/web?since=2026-01-01T00:00:00Z",
        "shop/web Some(2026-01-01T00:00:00Z)"
    )]
    #[case(
        "/debug/v1/autoscalers/shop/web?since=1h",
        "since must be a time such as 2026-01-31T12:00:00Z"
    )]
    fn path_and_parameters_select_the_document(#[case] path: &str, #[case] route: &str) {
        assert_eq!(parse(path), route);
    }
}
