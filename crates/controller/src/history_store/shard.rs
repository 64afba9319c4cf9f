//! How what is kept is laid out over `ConfigMaps`.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};

use super::snapshot::HistorySnapshot;
use crate::key::HpaKey;

/// The most shards there are; a power of two. The role of the chart names them all.
pub(super) const MOST_SHARDS: usize = 16;
/// How many autoscalers a shard is meant for; there are more in each once there are no more shards.
const AUTOSCALERS_PER_SHARD: usize = 500;
/// The most that is put into a shard, in bytes; the API takes a mebibyte.
const LARGEST: usize = 900 << 10;
/// The layout that is read and written.
const VERSION: u32 = 1;
/// The key of what is said of a shard as a whole. It is no UID.
const ABOUT: &str = "shard";

/// What is said of a shard as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardHeader {
    version: u32,
    /// How many shards there are.
    pub(super) of: usize,
    /// When it was written.
    pub(super) written: Timestamp,
}

/// A shard that was read: what is in it, by UID.
#[derive(Debug, PartialEq)]
pub(super) struct Shard {
    pub(super) about: ShardHeader,
    pub(super) entries: HashMap<String, HistorySnapshot>,
}

/// The name of a shard.
pub(super) fn name(prefix: &str, index: usize) -> String {
    format!("{prefix}-history-{index}")
}

/// How many shards so many autoscalers take: a power of two, so that a shard is only ever divided.
pub(super) fn shards_for(autoscalers: usize) -> usize {
    autoscalers.div_ceil(AUTOSCALERS_PER_SHARD).max(1).next_power_of_two().min(MOST_SHARDS)
}

/// The shard of an autoscaler out of so many. It depends on nothing but its name (FNV-1a).
pub(super) fn shard_of(key: &HpaKey, shards: usize) -> usize {
    let (offset, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0100_0000_01b3_u64);
    let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
    let hash = bytes.fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime));
    // The low bits alone hardly depend on the first characters.
    let hash = usize::try_from((hash ^ (hash >> 32)) & 0xffff).unwrap_or_default();
    hash % shards.max(1)
}

/// A shard as it is written.
pub(super) struct Encoded {
    /// Of the object.
    pub(super) data: BTreeMap<String, String>,
    /// Its size.
    pub(super) bytes: usize,
    /// How many entries found no room.
    pub(super) left_out: usize,
}

/// Puts entries, by UID, into a shard.
pub(super) fn encode<'a>(
    of: usize,
    written: Timestamp,
    entries: impl Iterator<Item = (&'a str, &'a HistorySnapshot)>,
) -> Result<Encoded, serde_json::Error> {
    let about = serde_json::to_string(&ShardHeader { version: VERSION, of, written })?;
    let (mut bytes, mut left_out) = (about.len(), 0);
    let mut data = BTreeMap::from([(ABOUT.to_owned(), about)]);
    for (uid, entry) in entries {
        let entry = serde_json::to_string(entry)?;
        let more = uid.len() + entry.len();
        if bytes + more > LARGEST {
            left_out += 1;
        } else {
            bytes += more;
            data.insert(uid.to_owned(), entry);
        }
    }
    Ok(Encoded { data, bytes, left_out })
}

/// Reads a shard. `None` if it is of another version, or none of ours; entries that cannot be read are left out.
pub(super) fn decode(object: &ConfigMap) -> Option<Shard> {
    let data = object.data.as_ref()?;
    let about: ShardHeader = serde_json::from_str(data.get(ABOUT)?).ok()?;
    if about.version != VERSION {
        return None;
    }
    let entries = data.iter().filter(|(uid, _)| *uid != ABOUT);
    let entries =
        entries.filter_map(|(uid, entry)| Some((uid.clone(), serde_json::from_str(entry).ok()?)));
    Some(Shard { about, entries: entries.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(points: usize) -> HistorySnapshot {
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
    fn what_is_written_is_read() {
        let entry = HistorySnapshot {
            scaled: Some(3),
            ups: vec![(1, 2)],
            downs: vec![(3, -4)],
            ..entry(2)
        };
        let Encoded { data, left_out, .. } =
            encode(4, Timestamp::UNIX_EPOCH, [("u-1", &entry)].into_iter()).expect("JSON");
        assert_eq!(left_out, 0);
        let shard = decode(&object(data)).expect("a shard");
        assert_eq!(shard.about, ShardHeader { version: 1, of: 4, written: Timestamp::UNIX_EPOCH });
        assert_eq!(shard.entries, HashMap::from([("u-1".to_owned(), entry)]));
    }

    #[test]
    fn another_version_is_ignored_and_a_broken_entry_left_out() {
        let Encoded { mut data, .. } =
            encode(1, Timestamp::UNIX_EPOCH, [("a", &entry(1)), ("b", &entry(1))].into_iter())
                .expect("JSON");
        data.insert("b".into(), "{".into());
        let shard = decode(&object(data.clone())).expect("a shard");
        assert_eq!(shard.entries.into_keys().collect::<Vec<_>>(), ["a"]);
        let next = data[ABOUT].replace("\"version\":1", "\"version\":2");
        data.insert(ABOUT.into(), next);
        assert_eq!(decode(&object(data)), None);
        assert_eq!(decode(&ConfigMap::default()), None);
    }

    #[test]
    fn size_is_bounded() {
        let entry = entry(64);
        let uids: Vec<String> = (0..2000).map(|index| format!("uid-{index:04}")).collect();
        let entries = uids.iter().map(|uid| (uid.as_str(), &entry));
        let Encoded { data, bytes: size, left_out } =
            encode(1, Timestamp::UNIX_EPOCH, entries).expect("JSON");
        let bytes: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes < 1 << 20, "{bytes}");
        assert!(
            size <= LARGEST && left_out > 0 && data.len() > 500,
            "{size} {left_out} {}",
            data.len()
        );
    }

    #[test]
    fn shards_grow_with_the_autoscalers_and_divide_them_evenly() {
        assert_eq!([0, 1, 500, 501, 1001, 1_000_000].map(shards_for), [1, 1, 1, 2, 4, 16]);
        let mut counts = [0; 8];
        for index in 0..4000 {
            let key = HpaKey::new(format!("team-{}", index % 7), format!("web-{index}"));
            counts[shard_of(&key, 8)] += 1;
            assert_eq!(shard_of(&key, 8) % 4, shard_of(&key, 4));
        }
        assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    }
}
