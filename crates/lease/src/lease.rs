//! The Lease object as an election reads and writes it.

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::TypeMeta};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value};

/// A Lease whose times are text. The type of `k8s_openapi` can't be decoded if a time is outside
/// the range of [`Timestamp`], such as the end of year 9999, which the API server accepts. Then no
/// instance could acquire the lease until it is repaired or deleted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(inherit = "Lease")]
pub struct ElectionLease {
    #[serde(flatten)]
    pub types: Option<TypeMeta>,
    /// Without `managedFields`.
    #[serde(default, deserialize_with = "without_managed_fields")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Option<ElectionLeaseSpec>,
}

/// Decodes metadata without `managedFields`, which also have times. The API server keeps the stored
/// ones if a write has none.
fn without_managed_fields<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ObjectMeta, D::Error> {
    let mut metadata = Map::<String, Value>::deserialize(deserializer)?;
    metadata.remove("managedFields");
    ObjectMeta::deserialize(Value::Object(metadata)).map_err(D::Error::custom)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectionLeaseSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<LeaseTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<LeaseTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    /// Fields that elections don't use. A write keeps them.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A time as it is written in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseTime(String);

impl LeaseTime {
    /// `None` if it is outside the range of [`Timestamp`]. That doesn't mean that the lease was not
    /// renewed: another client may have written any time.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.0.parse().ok()
    }
}

impl From<Timestamp> for LeaseTime {
    /// Writes microseconds, as the API does.
    fn from(time: Timestamp) -> Self {
        Self(format!("{time:.6}"))
    }
}

impl ElectionLease {
    /// A lease without a holder.
    pub(crate) fn named(name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self { metadata, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_with_times_out_of_range_is_decoded_and_kept() {
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": "a", "resourceVersion": "7" },
            "spec": {
                "acquireTime": "10000-01-01T00:00:00.000000Z",
                "holderIdentity": "a_1",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 3,
                "preferredHolder": "a_2",
                "renewTime": "9999-12-31T23:59:59.999999Z",
            },
        });
        let lease: ElectionLease = serde_json::from_value(object.clone()).expect("a lease");
        let spec = lease.spec.as_ref().expect("a spec");
        assert_eq!(spec.renew_time.as_ref().map(LeaseTime::timestamp), Some(None));
        assert_eq!(spec.acquire_time.as_ref().map(LeaseTime::timestamp), Some(None));
        assert_eq!(serde_json::to_value(&lease).expect("an object"), object);
    }

    #[test]
    fn managed_fields_with_a_time_out_of_range_are_left_out() {
        let lease: ElectionLease = serde_json::from_value(json!({
            "metadata": { "name": "a", "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] },
        }))
        .expect("a lease");
        assert_eq!(
            serde_json::to_value(&lease.metadata).expect("an object"),
            json!({ "name": "a" })
        );
    }

    #[test]
    fn time_has_microseconds() {
        let time = Timestamp::from_microsecond(1_500_000).expect("a timestamp");
        let written = LeaseTime::from(time);
        assert_eq!(written, LeaseTime("1970-01-01T00:00:01.500000Z".to_owned()));
        assert_eq!(written.timestamp(), Some(time));
    }

    #[test]
    fn url_path_is_in_coordination_k8s_io() {
        let path = ElectionLease::url_path(&(), Some("b"));
        assert_eq!(path, "/apis/coordination.k8s.io/v1/namespaces/b/leases");
    }
}
