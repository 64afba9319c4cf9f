//! Compares shards of the history store with the tests' plain decoder, in tests and fuzz targets.

use std::collections::BTreeMap;

use hpa_testbed::decoder_tests::{Document, DocumentResult};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, de::Error};

use super::{shard, snapshot::HistorySnapshot};
use crate::k8s::differential::optional;

/// Valid headers of a shard.
pub(crate) const HEADERS: [&str; 1] = [r#"{"version":1,"of":4,"written":"2026-01-01T00:00:00Z"}"#];
/// Valid snapshots.
pub(crate) const SNAPSHOTS: [&str; 1] = [r#"{"hpa":"shop/web","desired":3,"scaled":1767225600,
    "recommendations":[[5,1767225600000],[4,1767225601000]],"ups":[[2,1767225600000]],
    "downs":[[1,1767225599000]],"failing":[[18446744073709551615,1767225599000,null,1]],"zero":5}"#];

/// Whether the header can be decoded. Panics if the result differs from the tests' plain decoder.
pub(crate) fn check_header(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let decoded = decode(text, SNAPSHOTS[0]);
    let plain = plain_header(body).ok().filter(|(version, ..)| *version == 1);
    let header = decoded.as_ref().map(|shard| (1, shard.header.shard_count, shard.header.written));
    assert_eq!(header, plain, "{text}");
    decoded.is_some()
}

/// Whether the snapshot is accepted. Panics if the result differs from the tests' plain decoder.
pub(crate) fn check_snapshot(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let shard = decode(HEADERS[0], text);
    let (decoded, rejected) =
        shard.map_or((None, 0), |mut shard| (shard.snapshots.remove("uid"), shard.rejected));
    let plain = plain_snapshot(body).ok().filter(is_within_limits);
    assert_eq!(decoded, plain, "{text}");
    assert_eq!(rejected, usize::from(plain.is_none()), "{text}");
    decoded.is_some()
}

fn decode(header: &str, snapshot: &str) -> Option<shard::Shard> {
    let data = [("shard", header), ("uid", snapshot)];
    let data = data.map(|(name, text)| (name.to_owned(), text.to_owned()));
    shard::decode(&ConfigMap { data: Some(BTreeMap::from(data)), ..ConfigMap::default() })
}

/// The version, the number of shards, and the time of the write.
fn plain_header(body: &[u8]) -> DocumentResult<(u32, usize, Timestamp)> {
    let fields = Document::parse(body)?.struct_fields(["version", "of", "written"])?;
    let [Some(version), Some(shards), Some(written)] = fields else {
        return Err(serde_json::Error::custom("a field is missing"));
    };
    let written: String = written.decode()?;
    Ok((version.decode()?, shards.decode()?, written.parse().map_err(serde_json::Error::custom)?))
}

fn plain_snapshot(body: &[u8]) -> DocumentResult<HistorySnapshot> {
    let fields = ["hpa", "desired", "scaled", "recommendations", "ups", "downs", "failing", "zero"];
    let [hpa, desired, scaled, recommendations, ups, downs, failing, zero] =
        Document::parse(body)?.struct_fields(fields)?;
    Ok(HistorySnapshot {
        hpa: hpa.map_or(Ok(String::new()), Document::decode)?,
        desired_replicas: desired.map_or(Ok(0), Document::decode)?,
        last_scale_time: optional(scaled)?,
        recommendations: elements(recommendations)?,
        scale_ups: elements(ups)?,
        scale_downs: elements(downs)?,
        failing_metrics: elements(failing)?,
        zero_since: optional(zero)?,
    })
}

fn elements<'a, T: Deserialize<'a>>(list: Option<Document<'a>>) -> DocumentResult<Vec<T>> {
    let elements = list.map_or(Ok(Vec::new()), Document::elements)?;
    elements.into_iter().map(Document::decode).collect()
}

/// Whether a snapshot has at most 64 recommendations of 0 to 1,000,000 replicas, 32 scale events of
/// each kind with changes of 1 to 1,000,000, 32 failing metrics, and no negative desired replicas.
fn is_within_limits(snapshot: &HistorySnapshot) -> bool {
    let events = [&snapshot.scale_ups, &snapshot.scale_downs];
    snapshot.desired_replicas >= 0
        && snapshot.recommendations.len() <= 64
        && snapshot.recommendations.iter().all(|(replicas, _)| (0..=1_000_000).contains(replicas))
        && events.iter().all(|events| events.len() <= 32)
        && snapshot.failing_metrics.len() <= 32
        && events.iter().all(|events| events.iter().all(|(n, _)| (1..=1_000_000).contains(n)))
}

#[cfg(test)]
mod tests {
    use hpa_testbed::decoder_tests::compare;
    use serde_json::json;

    use super::*;

    #[test]
    fn shard_headers_are_decoded_as_with_plain_decoding() {
        compare(&HEADERS, check_header);
    }

    #[test]
    fn snapshots_are_decoded_as_with_plain_decoding() {
        compare(&SNAPSHOTS, check_snapshot);
    }

    #[test]
    fn snapshots_at_the_limits_are_accepted_as_with_plain_decoding() {
        for name in ["recommendations", "ups", "downs"] {
            let points = [1, 32, 33, 64, 65];
            let accepted = points
                .into_iter()
                .flat_map(|points| [-1, 0, 1, 1_000_000, 1_000_001].map(|number| (points, number)))
                .filter(|(points, number)| {
                    let text = json!({ name: vec![(number, 0); *points] }).to_string();
                    check_snapshot(text.as_bytes())
                });
            // Four lengths with three numbers, or two lengths with two numbers.
            assert_eq!(accepted.count(), if name == "recommendations" { 12 } else { 4 }, "{name}");
        }
    }
}
