//! Decides the next step of an instance from its observations of the lease, without I/O.

use std::time::Duration;

use tokio::time::Instant;

use crate::lease::LeaseTime;

/// The fields of a lease that the election reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// The identity of the lease holder; empty if the lease was released.
    pub(crate) holder: String,
    /// The time for which the lease is valid after a renewal.
    pub(crate) duration: Duration,
    /// The time when the holder acquired or released the lease, by the holder's wall clock.
    pub(crate) acquired: Option<LeaseTime>,
    /// The time when the holder last renewed or released the lease, by the holder's wall clock.
    pub(crate) renewed: Option<LeaseTime>,
    /// The number of times that an instance acquired the lease after another holder or a release.
    pub(crate) transitions: i32,
}

/// The observations of the lease by one instance. Wall clocks of different machines are never
/// compared: the lease duration counts from the observation of the latest renewal, on our monotonic
/// clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseObservation {
    record: Option<LeaseRecord>,
    /// Another instance may act as the leader until this time, even if the lease is deleted.
    held_until: Option<Instant>,
}

impl LeaseObservation {
    /// Updates the observation with the lease as read at `now`; `None` if there is no lease.
    pub(crate) fn update(&mut self, record: Option<LeaseRecord>, identity: &str, now: Instant) {
        match &record {
            Some(record) if record.holder.is_empty() || record.holder == identity => {
                self.held_until = None;
            }
            Some(record) if self.record.as_ref() != Some(record) => {
                self.held_until = Some(now + record.duration);
            }
            Some(_) | None => {}
        }
        self.record = record;
    }

    /// The lease as last read.
    pub(crate) fn record(&self) -> Option<&LeaseRecord> {
        self.record.as_ref()
    }
}

/// The next step of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no lease: create it.
    Create,
    /// Acquire the lease: it was released or has expired, or it already names this instance as its
    /// holder, for example because the response to the acquisition was lost.
    Acquire,
    /// Renew our lease.
    Renew,
    /// Wait: another instance may be the leader until this time.
    Wait(Instant),
    /// We were the leader and must stop.
    Lost,
}

/// The next step of this instance at `now`. `leader_until` is the end of its leadership unless it
/// renews the lease; `None` if it is not the leader.
pub(crate) fn decide(
    observation: &LeaseObservation,
    identity: &str,
    leader_until: Option<Instant>,
    now: Instant,
) -> Step {
    let holder = observation.record.as_ref().map(|record| record.holder.as_str());
    match (leader_until, holder) {
        (Some(until), _) if now >= until => Step::Lost,
        // Another instance may already be the leader, for example after a manual edit of the lease.
        (Some(_), Some(holder)) if holder != identity => Step::Lost,
        (Some(_), Some(_)) => Step::Renew,
        (Some(_), None) => Step::Create,
        (None, holder) => match (observation.held_until.filter(|until| *until > now), holder) {
            (Some(held_until), _) => Step::Wait(held_until),
            (None, Some(_)) => Step::Acquire,
            (None, None) => Step::Create,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn at(seconds: u64) -> Instant {
        *START + Duration::from_secs(seconds)
    }

    /// A lease of 15 seconds. Renewals differ in their time.
    fn lease(holder: &str, renewed: i64) -> LeaseRecord {
        LeaseRecord {
            holder: holder.to_owned(),
            duration: Duration::from_secs(15),
            renewed: Timestamp::from_second(renewed).ok().map(LeaseTime::from),
            ..LeaseRecord::default()
        }
    }

    /// `observed` has seconds and the lease as read then. This instance is `me`; `leader_until` is
    /// the end of its leadership.
    #[rstest]
    #[case::no_lease(&[(0, None)], None, 0, Step::Create)]
    #[case::never_read(&[], None, 0, Step::Create)]
    #[case::held(&[(0, Some(lease("other", 1)))], None, 0, Step::Wait(at(15)))]
    #[case::held_until_the_last_moment(
        &[(0, Some(lease("other", 1)))], None, 14, Step::Wait(at(15)))]
    #[case::expired(&[(0, Some(lease("other", 1)))], None, 15, Step::Acquire)]
    #[case::renewed(
        &[(0, Some(lease("other", 1))), (10, Some(lease("other", 2)))], None, 15,
        Step::Wait(at(25)))]
    #[case::observed_again_without_renewal(
        &[(0, Some(lease("other", 1))), (10, Some(lease("other", 1)))], None, 15, Step::Acquire)]
    #[case::renewal_time_in_the_past(
        &[(0, Some(lease("other", -9_999)))], None, 14, Step::Wait(at(15)))]
    #[case::renewal_time_in_the_future(
        &[(0, Some(lease("other", 9_999)))], None, 15, Step::Acquire)]
    #[case::acquired_by_a_third(
        &[(0, Some(lease("other", 1))), (14, Some(lease("third", 1)))], None, 20,
        Step::Wait(at(29)))]
    #[case::released(
        &[(0, Some(lease("other", 1))), (1, Some(lease("", 2)))], None, 1, Step::Acquire)]
    #[case::released_before_start(&[(0, Some(lease("", 2)))], None, 0, Step::Acquire)]
    #[case::deleted_before_expiry(
        &[(0, Some(lease("other", 1))), (1, None)], None, 14, Step::Wait(at(15)))]
    #[case::deleted_and_expired(
        &[(0, Some(lease("other", 1))), (1, None)], None, 15, Step::Create)]
    #[case::ours_after_a_lost_response(&[(0, Some(lease("me", 1)))], None, 0, Step::Acquire)]
    #[case::ours(&[(0, Some(lease("me", 1)))], Some(10), 2, Step::Renew)]
    #[case::ours_after_the_renew_deadline(&[(0, Some(lease("me", 1)))], Some(10), 10, Step::Lost)]
    #[case::ours_deleted(
        &[(0, Some(lease("me", 1))), (1, None)], Some(10), 2, Step::Create)]
    #[case::ours_deleted_after_the_renew_deadline(
        &[(0, Some(lease("me", 1))), (1, None)], Some(10), 10, Step::Lost)]
    #[case::ours_acquired_by_another(
        &[(0, Some(lease("me", 1))), (1, Some(lease("other", 2)))], Some(10), 2, Step::Lost)]
    #[case::ours_cleared_manually(
        &[(0, Some(lease("me", 1))), (1, Some(lease("", 2)))], Some(10), 2, Step::Lost)]
    fn decide_returns_the_next_step(
        #[case] observed: &[(u64, Option<LeaseRecord>)],
        #[case] leader_until: Option<u64>,
        #[case] now: u64,
        #[case] expected: Step,
    ) {
        let mut observation = LeaseObservation::default();
        for (second, record) in observed {
            observation.update(record.clone(), "me", at(*second));
        }
        assert_eq!(decide(&observation, "me", leader_until.map(at), at(now)), expected);
    }
}
