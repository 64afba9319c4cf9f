//! The writers of an autoscaler's status, from its `managedFields`.

use std::{cmp::Reverse, collections::HashSet, fmt};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field manager of an instance without leader election, and the prefix of all others.
const FIELD_MANAGER: &str = "hpa-controller";

/// The field manager of kube-controller-manager.
pub const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// The longest field manager that the API server accepts.
const MAX_FIELD_MANAGER: usize = 128;

/// The maximum number of controllers whose overwritten status is kept. A user can forge any
/// number of entries.
const MAX_OVERWRITTEN: usize = 4;

/// The maximum lag of this machine's clock behind the API server's. A forged time can be ahead by
/// the same amount, so this adds to the time for which a forged write counts as recent.
const MAX_CLOCK_LAG: SignedDuration = SignedDuration::from_mins(1);

/// The field manager of an instance's status writes: `hpa-controller`, or with leader election
/// `hpa-controller:NAMESPACE/LEASE`. Instances that share a lease have the same field manager, and
/// two Helm releases have different ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager(String);

impl Default for FieldManager {
    fn default() -> Self {
        Self(FIELD_MANAGER.to_owned())
    }
}

impl FieldManager {
    /// The field manager of the instances that share this lease.
    pub fn for_lease(namespace: &str, name: &str) -> Self {
        let full = format!("{FIELD_MANAGER}:{namespace}/{name}");
        Self(full.chars().take(MAX_FIELD_MANAGER).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a field manager is the one of an hpa-rs instance.
    pub fn is_hpa_rs(manager: &str) -> bool {
        let rest = manager.strip_prefix(FIELD_MANAGER);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// The namespace and name of the lease in a field manager, if it is the one of an hpa-rs
    /// instance with leader election.
    pub fn parse_lease(manager: &str) -> Option<(&str, &str)> {
        let lease = manager.strip_prefix(FIELD_MANAGER)?.strip_prefix(':')?;
        // At the maximum length, the name of the lease may be cut off.
        lease.split_once('/').filter(|_| manager.len() < MAX_FIELD_MANAGER)
    }
}

/// The last write of an autoscaler's status by one field manager.
///
/// Every user who may create or update the autoscaler can forge it, because the API server stores
/// the `managedFields` of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    pub manager: String,
    /// In whole seconds, by the API server's clock.
    pub at: Timestamp,
}

impl StatusWrite {
    /// Whether an hpa-rs instance wrote the status.
    pub fn is_by_hpa_rs(&self) -> bool {
        FieldManager::is_hpa_rs(&self.manager)
    }
}

/// Whether `at` is more than a minute after `earlier`. Clocks usually differ by less: an entry of
/// `managedFields` whose time is clearly after now is forged.
pub fn is_clearly_after(at: Timestamp, earlier: Timestamp) -> bool {
    at.duration_since(earlier) > MAX_CLOCK_LAG
}

/// `kube-controller-manager at 2026-01-01T00:00:00Z`.
impl fmt::Display for StatusWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.manager, self.at)
    }
}

/// An entry of `managedFields`. All members are text, so that no entry makes an object undecodable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ManagedFieldsEntry {
    manager: Option<String>,
    subresource: Option<String>,
    time: Option<String>,
}

/// The controller that stored the status of an autoscaler last, by the field manager of that write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusController {
    /// The field manager. `None` if no status was stored.
    pub name: Option<String>,
    /// The time of the write. `None` if the entry of `managedFields` has no time.
    pub at: Option<Timestamp>,
    /// The newest write of each other controller, which this one has overwritten. The newest come
    /// first, at most four.
    #[serde(skip)]
    pub overwritten: Vec<StatusWrite>,
}

impl StatusController {
    /// The writer of the newest status write that the `managedFields` of an object record at the
    /// time `now`. Entries without a time are the oldest. Ignores entries whose time is unreadable
    /// or [in the future](is_clearly_after), which users may have forged.
    pub fn of_object(object: &Value, now: Timestamp) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        // A manifest may have entries of other types, which the API server would reject.
        let entries = entries.into_iter().flatten();
        let entries = entries.filter_map(|entry| ManagedFieldsEntry::deserialize(entry).ok());
        let writers: Vec<_> = entries.filter_map(|entry| entry.status_writer(now)).collect();
        let newest = writers.iter().max_by_key(|(_, at)| *at);
        let Some((name, at)) = newest.cloned() else { return Self::default() };
        let others = writers.into_iter().filter_map(|(manager, at)| {
            let is_other = manager != name && is_controller(&manager);
            Some(StatusWrite { manager, at: at? }).filter(|_| is_other)
        });
        let mut overwritten: Vec<_> = others.collect();
        overwritten.sort_unstable_by_key(|write| Reverse(write.at));
        let mut managers = HashSet::new();
        overwritten.retain(|write| managers.insert(write.manager.clone()));
        overwritten.truncate(MAX_OVERWRITTEN);
        Self { name: Some(name), at, overwritten }
    }

    /// Whether it is kube-controller-manager, which ignores the settings of single autoscalers.
    /// hpa-rs may have replaced it since.
    pub fn is_kube_controller_manager(&self) -> bool {
        self.name.as_deref() == Some(KUBE_CONTROLLER_MANAGER)
    }
}

/// Whether a field manager is the one of a controller of autoscalers. Users and tools that store a
/// status have other ones.
fn is_controller(manager: &str) -> bool {
    manager == KUBE_CONTROLLER_MANAGER || FieldManager::is_hpa_rs(manager)
}

impl ManagedFieldsEntry {
    /// The field manager and the time of the status write that the entry records, if it records
    /// one. Writes of the scale and the spec don't count, because users and deployment tools also
    /// make them.
    fn status_writer(&self, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
        if self.subresource.as_deref() != Some("status") {
            return None;
        }
        let manager = self.manager.clone().filter(|manager| !manager.is_empty())?;
        let time = self.time.as_deref().filter(|time| !time.is_empty());
        let at = time.map(str::parse::<Timestamp>).transpose().ok()?;
        let is_forged = at.is_some_and(|at| is_clearly_after(at, now));
        (!is_forged).then_some((manager, at))
    }
}

/// The newest status write with a time, by a field manager other than `own`.
pub(super) fn newest_status_write(
    entries: &[ManagedFieldsEntry],
    own: Option<&FieldManager>,
    now: Timestamp,
) -> Option<StatusWrite> {
    let is_own = |manager: &str| own.is_some_and(|own| own.0 == manager);
    entries
        .iter()
        .filter_map(|entry| entry.status_writer(now))
        .filter(|(manager, _)| !is_own(manager))
        .filter_map(|(manager, at)| Some(StatusWrite { manager, at: at? }))
        .max_by_key(|write| write.at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn newest(entries: Value, own: &FieldManager) -> Option<String> {
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).expect("entries");
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        newest_status_write(&entries, Some(own), now).map(|write| write.to_string())
    }

    fn entry(manager: &str, subresource: &str, second: u32) -> Value {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        json!({ "manager": manager, "operation": "Update", "subresource": subresource,
            "time": time, "fieldsType": "FieldsV1", "fieldsV1": { "f:status": {} } })
    }

    #[test]
    fn newest_status_write_of_another_manager_is_found() {
        let own = FieldManager::default();
        let entries = json!([
            entry("kubectl", "", 50),
            entry("kubectl", "scale", 51),
            entry("old", "status", 1),
            entry("kube-controller-manager", "status", 20),
            entry("hpa-controller", "status", 40),
        ]);
        let peer = Some("kube-controller-manager at 2026-01-01T00:00:20Z".to_owned());
        assert_eq!(newest(entries.clone(), &own), peer);
        let other = FieldManager::for_lease("autoscaling", "hpa");
        let second = Some("hpa-controller at 2026-01-01T00:00:40Z".to_owned());
        assert_eq!(newest(entries, &other), second, "a Helm release with another lease is a peer");
    }

    #[test]
    fn incomplete_and_future_entries_are_ignored() {
        let entries = json!([
            { "manager": "forged", "subresource": "status", "time": "2026-01-01T00:02:01Z" },
            { "manager": null, "subresource": "status", "time": "2026-01-01T00:00:00Z" },
            { "manager": "a", "subresource": "status", "time": "9999-12-31T23:59:59Z" },
            { "manager": "b", "subresource": "status" },
            {},
        ]);
        assert_eq!(newest(entries, &FieldManager::default()), None);
    }

    #[test]
    fn writer_without_a_time_is_the_oldest() {
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        let newest = |entries: Value| {
            let object = json!({ "metadata": { "managedFields": entries } });
            StatusController::of_object(&object, now)
        };
        let manifest = json!({ "manager": "manifest", "subresource": "status" });
        let writer = newest(json!([entry("kcm", "status", 1), manifest]));
        assert_eq!((writer.name.as_deref(), writer.at.is_some()), (Some("kcm"), true));
        let end =
            json!({ "manager": "a", "subresource": "status", "time": "9999-12-31T23:59:59Z" });
        let writer = newest(json!([manifest, end]));
        assert_eq!((writer.name.as_deref(), writer.at), (Some("manifest"), None));
        let none = StatusController::default();
        assert_eq!(newest(json!([end, entry("kubectl", "scale", 1)])), none);
    }

    #[test]
    fn entry_in_the_future_is_ignored() {
        let entry =
            |manager, time| json!({ "manager": manager, "subresource": "status", "time": time });
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let name = |future| {
            let entries = [entry("kcm", "2025-12-31T23:59:50Z"), entry("forged", future)];
            let object = json!({ "metadata": { "managedFields": entries } });
            StatusController::of_object(&object, now).name
        };
        for future in ["2026-01-01T00:01:01Z", "2126-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(name(future).as_deref(), Some("kcm"), "{future}");
        }
        assert_eq!(name("2026-01-01T00:01:00Z").as_deref(), Some("forged"), "clocks may differ");
    }

    #[test]
    fn overwritten_writes_are_the_newest_of_each_other_controller() {
        let entries = [
            entry("hpa-controller:a/b", "status", 2),
            entry(KUBE_CONTROLLER_MANAGER, "status", 1),
            entry(KUBE_CONTROLLER_MANAGER, "status", 3),
            entry("kubectl-edit", "status", 4),
            entry("hpa-controller", "status", 5),
            entry("hpa-controller", "status", 4),
        ];
        let overwritten = |entries: &[Value]| {
            let object = json!({ "metadata": { "managedFields": entries } });
            let now = "2026-01-01T00:01:00Z".parse().expect("a time");
            let StatusController { name, overwritten, .. } =
                StatusController::of_object(&object, now);
            (name, overwritten.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (name, others) = overwritten(&entries);
        assert_eq!(name.as_deref(), Some("hpa-controller"));
        let expected = [
            "kube-controller-manager at 2026-01-01T00:00:03Z",
            "hpa-controller:a/b at 2026-01-01T00:00:02Z",
        ];
        assert_eq!(others, expected);
        let forged =
            (0..50).map(|second| entry(&format!("hpa-controller:a/{second}"), "status", second));
        assert_eq!(overwritten(&forged.collect::<Vec<_>>()).1.len(), MAX_OVERWRITTEN);
    }

    #[test]
    fn entry_of_another_type_does_not_hide_the_others() {
        let kcm = json!({ "manager": "kcm", "subresource": "status" });
        let object = json!({ "metadata": { "managedFields": [{ "manager": 5 }, "text", kcm] } });
        let controller = StatusController::of_object(&object, Timestamp::UNIX_EPOCH);
        assert_eq!((controller.name.as_deref(), controller.at), (Some("kcm"), None));
    }

    #[test]
    fn field_manager_names_the_lease_and_is_not_too_long() {
        let manager = FieldManager::for_lease("autoscaling", "hpa-controller");
        assert_eq!(manager.as_str(), "hpa-controller:autoscaling/hpa-controller");
        let long = FieldManager::for_lease(&"n".repeat(63), &"l".repeat(63));
        assert_eq!(long.as_str().len(), MAX_FIELD_MANAGER);
        let lease = FieldManager::parse_lease;
        assert_eq!(lease(manager.as_str()), Some(("autoscaling", "hpa-controller")));
        let none = [long.as_str(), "hpa-controller", "hpa-controllers:a/b", "hpa-controller:a"];
        assert_eq!(none.map(lease), [None; 4]);
    }

    #[test]
    fn writes_by_hpa_rs_are_recognized() {
        let is_by_hpa_rs = |manager: &str| {
            StatusWrite { manager: manager.into(), at: Timestamp::UNIX_EPOCH }.is_by_hpa_rs()
        };
        let managers = ["hpa-controller", "hpa-controller:a/b", "hpa-controllers", "k3s"];
        assert_eq!(managers.map(is_by_hpa_rs), [true, true, false, false]);
    }
}
