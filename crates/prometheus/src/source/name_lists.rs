//! Splits long lists of names into several queries.

use crate::rules::Compat;

/// The maximum length of the names in a query, in bytes. Proxies refuse much longer queries, and
/// servers parse them slowly.
const MAX_LEN: usize = 8 << 10;
/// The maximum number of parts of one list that are read concurrently.
pub(super) const CONCURRENCY: usize = 4;

/// Splits a list into parts of at most [`MAX_LEN`] bytes. A longer name is a part of its own. With
/// compatibility, the list is not split.
///
/// `is_per_object` must return whether queries for the parts return the same samples as a query for
/// the whole list. If it returns `false`, the list is not split. It isn't called for a list that
/// fits into one part.
pub(super) fn split(
    names: &[String],
    compat: Compat,
    is_per_object: impl FnOnce() -> bool,
) -> Vec<&[String]> {
    let mut parts = Vec::new();
    let mut rest = names;
    while !rest.is_empty() {
        let mut len = 0;
        let fits = rest.iter().take_while(|name| {
            len += name.len() + 1;
            len <= MAX_LEN
        });
        let (part, remaining) = rest.split_at(fits.count().max(1));
        parts.push(part);
        rest = remaining;
    }
    let is_split = parts.len() > 1 && compat == Compat::Off && is_per_object();
    if is_split { parts } else { vec![names] }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hpa_calc::{Quantity, Selector};
    use serde_json::{Value, json};

    use super::*;
    use crate::source::{
        PrometheusSource,
        sharing::tests::{Setup, source},
        tests::{Prometheus, RULES, prometheus, request, sample},
    };
    use hpa_metrics::{MetricSource, Query};

    const PODS: usize = 10_000;

    #[test]
    fn parts_have_all_names_in_their_order() {
        let names: Vec<String> = (0..3000).map(|index| format!("web-{index}")).collect();
        let parts = split(&names, Compat::Off, || true);
        assert_eq!(parts.concat(), names);
        for part in &parts {
            let len: usize = part.iter().map(|name| name.len() + 1).sum();
            assert!(len <= MAX_LEN, "{len}");
        }
        let total: usize = names.iter().map(|name| name.len() + 1).sum();
        assert_eq!(parts.len(), total.div_ceil(MAX_LEN));
        assert_eq!(split(&names, Compat::Off, || false), [&names[..]]);
    }

    #[test]
    fn short_list_and_single_long_name_are_not_split() {
        let long = ["x".repeat(MAX_LEN * 2)];
        for names in [&[][..], &["a".to_owned(), "b".to_owned()], &long] {
            assert_eq!(split(names, Compat::Off, || panic!("not needed")), [names]);
        }
    }

    /// Responds with a sample for each pod that a query names, or for all pods.
    fn answer(query: &str) -> Option<Value> {
        let (_, after) = query.split_once("pod")?;
        let names: Vec<String> = match after.split('"').next()? {
            "=~" | "=" => after.split('"').nth(1)?.split('|').map(ToOwned::to_owned).collect(),
            _ => (0..PODS).map(|index| format!("web-{index}")).collect(),
        };
        let value = |name: &String| json!(sample(name, name.trim_start_matches("web-")));
        Some(names.iter().map(value).collect())
    }

    async fn read_values(source: &PrometheusSource) -> Vec<String> {
        let values = source.read_custom(request("inflight")).await.unwrap();
        values.items.iter().map(|item| Quantity::from(item.value).to_string()).collect()
    }

    fn server() -> Prometheus {
        let server = prometheus();
        server.compute(answer);
        server
    }

    #[tokio::test]
    async fn ten_thousand_pods_are_read_in_parts() {
        let server = server();
        let setup = Setup { sharing: false, pods: PODS, ..Setup::default() };
        let source = source(&server, &setup).await;
        let values = read_values(&source).await;
        let distinct: BTreeSet<&String> = values.iter().collect();
        assert_eq!((values.len(), distinct.len()), (PODS, PODS));
        let requests = server.take_requests();
        // With separators, the names have 88 890 bytes: almost 11 times `MAX_LEN`.
        assert_eq!(requests.len(), 11);
        assert!(requests.iter().all(|query| query.len() < MAX_LEN + 100));
        assert_eq!(source.query_counts()[0].single, 11);
    }

    #[tokio::test]
    async fn shared_query_replaces_the_parts() {
        let server = server();
        let source = source(&server, &Setup { pods: PODS, ..Setup::default() }).await;
        assert_eq!(read_values(&source).await.len(), PODS);
        assert_eq!(server.take_requests().len(), 1);
    }

    #[tokio::test]
    async fn list_is_not_split_without_proof_or_with_compatibility() {
        let without_proof = RULES.replace(
            "max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
            "topk(3, <<.Series>>{<<.LabelMatchers>>})",
        );
        for setup in [
            Setup { rules: &without_proof, pods: PODS, ..Setup::default() },
            Setup { compat: Compat::Reference, pods: PODS, ..Setup::default() },
        ] {
            let server = server();
            let source = source(&server, &setup).await;
            assert_eq!(read_values(&source).await.len(), PODS);
            let requests = server.take_requests();
            assert_eq!(requests.len(), 1);
            assert!(requests[0].contains("web-0|web-1|"), "{}", requests[0]);
        }
    }

    #[tokio::test]
    async fn failed_query_for_a_part_fails_the_read() {
        let server = server();
        let setup = Setup { sharing: false, pods: PODS, ..Setup::default() };
        let source = source(&server, &setup).await;
        read_values(&source).await;
        server.fail(server.take_requests().last().unwrap());
        let error = source.read_custom(request("inflight")).await.unwrap_err();
        assert_eq!(hpa_metrics::describe(&error), "unable to fetch metrics: execution: boom");
    }

    #[tokio::test]
    async fn usage_of_ten_thousand_pods_is_read_in_parts() {
        for (compat, requests) in [(Compat::Off, 22), (Compat::Reference, 2)] {
            let server = server();
            let setup = Setup { compat, pods: PODS, ..Setup::default() };
            let source = source(&server, &setup).await;
            let query = Query::pod_usage("shop", &Selector::everything());
            let usage = source.read(&query).await.unwrap().into_pods().unwrap();
            assert_eq!((usage.items.len(), usage.failures.len()), (PODS, 0));
            assert_eq!(server.take_requests().len(), requests);
        }
    }
}
