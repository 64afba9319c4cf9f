//! Conversions between lease records and Lease objects.

use std::{collections::BTreeMap, time::Duration};

use kube::core::TypeMeta;

use crate::{
    decision::LeaseRecord,
    lease::{ElectionLease, ElectionLeaseSpec},
};

impl From<&ElectionLease> for LeaseRecord {
    fn from(lease: &ElectionLease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        // As in client-go, a lease without a duration has already expired.
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds.try_into().unwrap_or_default()),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }
}

impl LeaseRecord {
    /// Writes the record to a lease and keeps its other fields.
    pub(crate) fn write_to(&self, lease: &mut ElectionLease) {
        lease.types.get_or_insert_with(TypeMeta::resource::<ElectionLease>);
        let spec = lease.spec.get_or_insert_with(ElectionLeaseSpec::default);
        spec.holder_identity = Some(self.holder.clone());
        // Rounded up to whole seconds: no standby may acquire the lease early.
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.acquire_time.clone_from(&self.acquired);
        spec.renew_time.clone_from(&self.renewed);
        spec.lease_transitions = Some(self.transitions);
    }
}

/// Sets annotations of a lease. `None` removes one.
pub(crate) fn annotate(
    lease: &mut ElectionLease,
    annotations: Vec<(&'static str, Option<String>)>,
) {
    let stored = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
    for (name, value) in annotations {
        match value {
            Some(value) => _ = stored.insert(name.to_owned(), value),
            None => _ = stored.remove(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::lease::LeaseTime;

    #[test]
    fn record_round_trips_with_its_duration_rounded_up() {
        let written = LeaseRecord {
            holder: "a_1".to_owned(),
            duration: Duration::from_millis(1500),
            acquired: Timestamp::from_second(10).ok().map(LeaseTime::from),
            renewed: Timestamp::from_second(20).ok().map(LeaseTime::from),
            transitions: 7,
        };
        let mut lease = ElectionLease::default();
        written.write_to(&mut lease);
        let read = LeaseRecord { duration: Duration::from_secs(2), ..written };
        assert_eq!(LeaseRecord::from(&lease), read);
    }

    #[test]
    fn new_lease_is_written_with_its_kind() {
        let mut lease = ElectionLease::named("a");
        LeaseRecord::default().write_to(&mut lease);
        let expected = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": "a" },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": 0 },
        });
        assert_eq!(serde_json::to_value(&lease).expect("an object"), expected);
    }

    #[test]
    fn only_named_annotations_change() {
        let mut lease = ElectionLease::default();
        annotate(&mut lease, vec![("a", Some("1".to_owned())), ("b", Some("2".to_owned()))]);
        annotate(&mut lease, vec![("b", None), ("c", Some("3".to_owned()))]);
        let expected =
            [("a", "1"), ("c", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(lease.metadata.annotations, Some(BTreeMap::from(expected)));
    }

    #[test]
    fn empty_lease_has_no_holder() {
        assert_eq!(LeaseRecord::from(&ElectionLease::default()), LeaseRecord::default());
    }
}
