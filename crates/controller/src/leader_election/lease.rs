//! A lease record to and from the Lease object.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use super::decision::LeaseRecord;

/// The annotation that a lease holder sets if it stores histories for its successor.
const KEEPS_HISTORY: &str = "hpa-controller/keeps-history";
/// The annotation that it sets while writes of histories fail: the time until which they are
/// complete.
const HISTORY_COMPLETE_UNTIL: &str = "hpa-controller/history-complete-until";

impl From<&Lease> for LeaseRecord {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let annotation = |name| lease.metadata.annotations.as_ref().and_then(|all| all.get(name));
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds.try_into().unwrap_or_default()),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
            keeps_history: annotation(KEEPS_HISTORY).is_some_and(|value| value == "true"),
            // An unreadable time means that nothing is known to be complete.
            history_complete_until: annotation(HISTORY_COMPLETE_UNTIL)
                .map(|value| value.parse().unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }
}

impl LeaseRecord {
    /// Writes the record to a lease and keeps its other fields.
    pub(super) fn write_to(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let time = |time: Timestamp| MicroTime(time);
        spec.holder_identity = Some(self.holder.clone());
        // Rounded up to whole seconds, so that no standby acquires the lease early.
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.acquire_time = self.acquired.map(time);
        spec.renew_time = self.renewed.map(time);
        spec.lease_transitions = Some(self.transitions);
        let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
        if self.keeps_history {
            annotations.insert(KEEPS_HISTORY.to_owned(), "true".to_owned());
        } else {
            annotations.remove(KEEPS_HISTORY);
        }
        match self.history_complete_until {
            Some(until) => {
                annotations.insert(HISTORY_COMPLETE_UNTIL.to_owned(), until.to_string());
            }
            None => _ = annotations.remove(HISTORY_COMPLETE_UNTIL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips_with_its_duration_rounded_up() {
        let written = LeaseRecord {
            holder: "a_1".to_owned(),
            duration: Duration::from_millis(1500),
            acquired: Timestamp::from_second(10).ok(),
            renewed: Timestamp::from_second(20).ok(),
            transitions: 7,
            keeps_history: true,
            history_complete_until: Timestamp::from_second(15).ok(),
        };
        let mut lease = Lease::default();
        written.write_to(&mut lease);
        let read = LeaseRecord { duration: Duration::from_secs(2), ..written.clone() };
        assert_eq!(LeaseRecord::from(&lease), read);
        let released =
            LeaseRecord { keeps_history: false, history_complete_until: None, ..written };
        released.write_to(&mut lease);
        let read = LeaseRecord::from(&lease);
        assert!(!read.keeps_history && read.history_complete_until.is_none());
    }

    #[test]
    fn empty_lease_has_no_holder() {
        assert_eq!(LeaseRecord::from(&Lease::default()), LeaseRecord::default());
    }
}
