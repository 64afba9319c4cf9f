//! Resource usage of a kube-apiserver and its etcd, from `/proc` and from the API server's own
//! metrics.

use anyhow::{Context as _, Result};
use kube::Client;

use crate::{exposition::samples, request_info::qualified, stats::RequestCount, usage::Usage};

/// A running etcd and kube-apiserver.
#[derive(Clone)]
pub(super) struct ApiserverStats {
    pub(super) client: Client,
    pub(super) process_ids: [u32; 2],
}

impl ApiserverStats {
    pub(super) fn usage(&self) -> Result<Usage> {
        let [etcd, apiserver] = self.process_ids;
        Ok(Usage::for_process(etcd)?.add(Usage::for_process(apiserver)?))
    }

    /// Adds the bytes that the API server sent for each kind of request. Its metrics cover reads
    /// and watches only. They include all clients, but only the controller sends these kinds.
    pub(super) async fn add_bytes(&self, requests: &mut [RequestCount]) -> Result<()> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await;
        let text = text.context("cannot read the API server's metrics")?;
        for request in requests {
            request.bytes += bytes(&text, request);
        }
        Ok(())
    }
}

fn bytes(text: &str, request: &RequestCount) -> u64 {
    let kind = &request.kind;
    let name = match kind.verb.as_str() {
        "watch" => "apiserver_watch_events_sizes_sum",
        "get" | "list" => "apiserver_response_sizes_sum",
        _ => return 0,
    };
    let of_kind = samples(text, name).filter(|sample| {
        let verb = sample.label("verb");
        qualified(sample.label("resource"), sample.label("group")) == kind.resource
            && sample.label("subresource") == kind.subresource
            && (verb.is_empty() || verb.eq_ignore_ascii_case(&kind.verb))
    });
    let bytes: f64 = of_kind.map(|sample| sample.value).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let bytes = bytes as u64;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestKind;

    /// As kube-apiserver 1.36 writes it.
    const TEXT: &str = r#"apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1",le="+Inf"} 3
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 114980
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 20
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 0
apiserver_response_sizes_sum{component="apiserver",group="apps",resource="deployments",scope="resource",subresource="scale",verb="GET",version="v1"} 279
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 217381
"#;

    #[test]
    fn bytes_are_summed_by_verb_and_resource() {
        let bytes_of = |verb: &str, resource: &str, subresource: &str| {
            let [verb, resource, subresource] =
                [verb, resource, subresource].map(ToOwned::to_owned);
            let kind = RequestKind { verb, resource, subresource };
            bytes(TEXT, &RequestCount { kind, count: 1, failed: 0, bytes: 0 })
        };
        assert_eq!(bytes_of("list", "pods", ""), 115_000);
        assert_eq!(bytes_of("watch", "pods", ""), 217_381);
        assert_eq!(bytes_of("get", "deployments.apps", "scale"), 279);
        assert_eq!(bytes_of("get", "deployments.apps", ""), 0);
        assert_eq!(bytes_of("patch", "pods", ""), 0);
    }
}
