//! The layout of snapshots in ConfigMaps.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};

use super::snapshot::HistorySnapshot;
use crate::key::HpaKey;

/// The maximum number of shards; a power of two. The chart's role names all of them.
pub(super) const MAX_SHARDS: usize = 16;
/// The average number of autoscalers in a shard above which shards are split, up to the maximum
/// number of shards.
const AUTOSCALERS_PER_SHARD: usize = 500;
/// The maximum size of a shard. The API server accepts 1 MiB.
const MAX_SHARD_BYTES: usize = 900 << 10;
/// The version of the layout.
const VERSION: u32 = 1;
/// The ConfigMap key of the header. All others are UIDs.
const HEADER_KEY: &str = "shard";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardHeader {
    version: u32,
    #[serde(rename = "of")]
    pub(super) shard_count: usize,
    pub(super) written: Timestamp,
}

/// A shard that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Shard {
    pub(super) header: ShardHeader,
    /// The valid snapshots by UID.
    pub(super) snapshots: HashMap<String, HistorySnapshot>,
    /// The number of snapshots that can't be decoded or are invalid.
    pub(super) rejected: usize,
}

pub(super) fn shard_name(prefix: &str, shard: usize) -> String {
    format!("{prefix}-history-{shard}")
}

/// The number of shards for a number of autoscalers. It is a power of two, so that each new shard
/// gets its autoscalers from a single old shard.
pub(super) fn shard_count(autoscalers: usize) -> usize {
    autoscalers.div_ceil(AUTOSCALERS_PER_SHARD).max(1).next_power_of_two().min(MAX_SHARDS)
}

/// The shard of an autoscaler, from the FNV-1a hash of its namespace and name. It is the same in
/// every process.
pub(super) fn shard_index(key: &HpaKey, shard_count: usize) -> usize {
    let (offset, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0100_0000_01b3_u64);
    let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
    let hash = bytes.fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime));
    // Mixes in the high bits, because low bits alone depend little on the first characters.
    let hash = usize::try_from((hash ^ (hash >> 32)) & 0xffff).unwrap_or_default();
    hash % shard_count.max(1)
}

/// A shard in the form that is written.
pub(super) struct EncodedShard {
    /// The data of the ConfigMap.
    pub(super) data: BTreeMap<String, String>,
    pub(super) bytes: usize,
    /// The number of snapshots that were left out because of the maximum size of a shard.
    pub(super) omitted: usize,
}

/// Encodes the snapshots of a shard, each with its UID.
pub(super) fn encode<'a>(
    shard_count: usize,
    written: Timestamp,
    snapshots: impl Iterator<Item = (&'a str, &'a HistorySnapshot)>,
) -> Result<EncodedShard, serde_json::Error> {
    let header = serde_json::to_string(&ShardHeader { version: VERSION, shard_count, written })?;
    let (mut bytes, mut omitted) = (header.len(), 0);
    let mut data = BTreeMap::from([(HEADER_KEY.to_owned(), header)]);
    for (uid, snapshot) in snapshots {
        let snapshot = serde_json::to_string(snapshot)?;
        let size = uid.len() + snapshot.len();
        if bytes + size > MAX_SHARD_BYTES {
            omitted += 1;
        } else {
            bytes += size;
            data.insert(uid.to_owned(), snapshot);
        }
    }
    Ok(EncodedShard { data, bytes, omitted })
}

/// Decodes a shard without its undecodable and invalid snapshots. `None` if it isn't a shard in the
/// layout [`VERSION`].
pub(super) fn decode(object: &ConfigMap) -> Option<Shard> {
    let data = object.data.as_ref()?;
    let header: ShardHeader = serde_json::from_str(data.get(HEADER_KEY)?).ok()?;
    if header.version != VERSION {
        return None;
    }
    let valid = |snapshot: &str| {
        let snapshot: HistorySnapshot = serde_json::from_str(snapshot).ok()?;
        snapshot.is_valid().then_some(snapshot)
    };
    let stored = data.iter().filter(|(uid, _)| *uid != HEADER_KEY);
    let snapshots: HashMap<_, _> =
        stored.filter_map(|(uid, snapshot)| Some((uid.clone(), valid(snapshot)?))).collect();
    let rejected = (data.len() - 1).saturating_sub(snapshots.len());
    Some(Shard { header, snapshots, rejected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(points: usize) -> HistorySnapshot {
        HistorySnapshot {
            hpa: "shop/web".into(),
            recommendations: vec![(5, 1_790_000_000_000); points],
            ..HistorySnapshot::default()
        }
    }

    fn object(data: BTreeMap<String, String>) -> ConfigMap {
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    #[test]
    fn shard_round_trips() {
        let snapshot = HistorySnapshot {
            last_scale_time: Some(3),
            scale_ups: vec![(1, 2)],
            scale_downs: vec![(3, -4)],
            ..snapshot(2)
        };
        let EncodedShard { data, omitted, .. } =
            encode(4, Timestamp::UNIX_EPOCH, [("u-1", &snapshot)].into_iter()).expect("JSON");
        assert_eq!(omitted, 0);
        let shard = decode(&object(data)).expect("a shard");
        let written = Timestamp::UNIX_EPOCH;
        assert_eq!(shard.header, ShardHeader { version: 1, shard_count: 4, written });
        assert_eq!(shard.snapshots, HashMap::from([("u-1".to_owned(), snapshot)]));
    }

    #[test]
    fn other_version_and_undecodable_snapshot_are_ignored() {
        let snapshot = snapshot(1);
        let snapshots = [("a", &snapshot), ("b", &snapshot)].into_iter();
        let EncodedShard { mut data, .. } =
            encode(1, Timestamp::UNIX_EPOCH, snapshots).expect("JSON");
        data.insert("b".into(), "{".into());
        let shard = decode(&object(data.clone())).expect("a shard");
        assert_eq!(shard.rejected, 1);
        assert_eq!(shard.snapshots.into_keys().collect::<Vec<_>>(), ["a"]);
        let next = data[HEADER_KEY].replace("\"version\":1", "\"version\":2");
        data.insert(HEADER_KEY.into(), next);
        assert_eq!(decode(&object(data)), None);
        assert_eq!(decode(&ConfigMap::default()), None);
    }

    #[test]
    fn shard_has_a_maximum_size() {
        let snapshot = snapshot(64);
        let uids: Vec<String> = (0..2000).map(|index| format!("uid-{index:04}")).collect();
        let snapshots = uids.iter().map(|uid| (uid.as_str(), &snapshot));
        let EncodedShard { data, bytes, omitted } =
            encode(1, Timestamp::UNIX_EPOCH, snapshots).expect("JSON");
        let with_keys: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(with_keys < 1 << 20, "{with_keys}");
        let count = data.len();
        assert!(
            bytes <= MAX_SHARD_BYTES && omitted > 0 && count > 500,
            "{bytes} {omitted} {count}"
        );
    }

    #[test]
    fn shards_split_as_autoscalers_are_added() {
        assert_eq!([0, 1, 500, 501, 1001, 1_000_000].map(shard_count), [1, 1, 1, 2, 4, 16]);
        let mut counts = [0; 8];
        for index in 0..4000 {
            let key = HpaKey::new(format!("team-{}", index % 7), format!("web-{index}"));
            counts[shard_index(&key, 8)] += 1;
            assert_eq!(shard_index(&key, 8) % 4, shard_index(&key, 4));
        }
        assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    }
}
