//! A lease as the API has it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use super::decision::Record;

/// Says on a lease that its holder keeps histories.
const KEEPS_HISTORY: &str = "hpa-controller/keeps-history";

/// What a lease says.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let annotations = lease.metadata.annotations.as_ref();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(
            spec.lease_duration_seconds.unwrap_or_default().try_into().unwrap_or_default(),
        ),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
        keeps_history: annotations
            .is_some_and(|all| all.get(KEEPS_HISTORY).is_some_and(|kept| kept == "true")),
    }
}

/// Makes a lease say this, and leaves alone what else it has.
pub(super) fn write(lease: &mut Lease, record: &Record) {
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    let time = |time: Timestamp| MicroTime(time);
    spec.holder_identity = Some(record.holder.clone());
    // Whole seconds, rounded up: nobody is to take it before our time is over.
    let seconds = record.duration.as_secs() + u64::from(record.duration.subsec_nanos() > 0);
    spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
    spec.acquire_time = record.acquired.map(time);
    spec.renew_time = record.renewed.map(time);
    spec.lease_transitions = Some(record.transitions);
    let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
    if record.keeps_history {
        annotations.insert(KEEPS_HISTORY.to_owned(), "true".to_owned());
    } else {
        annotations.remove(KEEPS_HISTORY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_parts_of_a_second_are_rounded_up() {
        let written = Record {
            holder: "a_1".to_owned(),
            duration: Duration::from_millis(1500),
            acquired: Timestamp::from_second(10).ok(),
            renewed: Timestamp::from_second(20).ok(),
            transitions: 7,
            keeps_history: true,
        };
        let mut lease = Lease::default();
        write(&mut lease, &written);
        assert_eq!(record(&lease), Record { duration: Duration::from_secs(2), ..written.clone() });
        write(&mut lease, &Record { keeps_history: false, ..written });
        assert!(!record(&lease).keeps_history);
    }

    #[test]
    fn empty_lease_is_free() {
        assert_eq!(record(&Lease::default()), Record::default());
    }
}
