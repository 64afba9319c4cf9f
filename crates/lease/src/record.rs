//! Conversions between lease records and Lease objects.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use crate::decision::LeaseRecord;

impl From<&Lease> for LeaseRecord {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds.try_into().unwrap_or_default()),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }
}

impl LeaseRecord {
    /// Writes the record to a lease and keeps its other fields.
    pub(crate) fn write_to(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.holder.clone());
        // Rounded up to whole seconds: no standby may acquire the lease early.
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }
}

/// Sets annotations of a lease. `None` removes one.
pub(crate) fn annotate(lease: &mut Lease, annotations: Vec<(&'static str, Option<String>)>) {
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

    #[test]
    fn record_round_trips_with_its_duration_rounded_up() {
        let written = LeaseRecord {
            holder: "a_1".to_owned(),
            duration: Duration::from_millis(1500),
            acquired: Timestamp::from_second(10).ok(),
            renewed: Timestamp::from_second(20).ok(),
            transitions: 7,
        };
        let mut lease = Lease::default();
        written.write_to(&mut lease);
        let read = LeaseRecord { duration: Duration::from_secs(2), ..written };
        assert_eq!(LeaseRecord::from(&lease), read);
    }

    #[test]
    fn only_named_annotations_change() {
        let mut lease = Lease::default();
        annotate(&mut lease, vec![("a", Some("1".to_owned())), ("b", Some("2".to_owned()))]);
        annotate(&mut lease, vec![("b", None), ("c", Some("3".to_owned()))]);
        let annotations = lease.metadata.annotations.expect("annotations");
        assert_eq!(
            annotations,
            BTreeMap::from(
                [("a", "1"), ("c", "3")]
                    .map(|(name, value)| { (name.to_owned(), value.to_owned()) })
            )
        );
    }

    #[test]
    fn empty_lease_has_no_holder() {
        assert_eq!(LeaseRecord::from(&Lease::default()), LeaseRecord::default());
    }
}
