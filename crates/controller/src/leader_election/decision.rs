//! What to do about the lease: a function of what was observed, and nothing else.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// What a lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty if it was released.
    pub holder: String,
    /// How long the holder has it after each renewal.
    pub duration: Duration,
    /// When the holder got it, by its own wall clock.
    pub acquired: Option<Timestamp>,
    /// When it was renewed last, or released, by the holder's wall clock.
    pub renewed: Option<Timestamp>,
    /// How often it changed hands.
    pub transitions: i32,
    /// Whether its holder keeps histories (see [`crate::history_store`]).
    pub keeps_history: bool,
}

/// What one instance has seen of the lease. Wall clocks of different machines are never compared: how long a lease is
/// held is counted, by our monotonic clock, from when its latest renewal was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    record: Option<Record>,
    /// Until when another instance may act as the leader. It outlives a lease that was deleted.
    held_until: Option<Instant>,
}

impl View {
    /// Takes in the lease as it was seen now; `None` if there is none.
    pub fn observe(&mut self, record: Option<Record>, me: &str, now: Instant) {
        match &record {
            Some(record) if record.holder.is_empty() || record.holder == me => {
                self.held_until = None
            }
            Some(seen) if self.record.as_ref() != Some(seen) => {
                self.held_until = Some(now + seen.duration)
            }
            Some(_) | None => {}
        }
        self.record = record;
    }

    /// The lease as it was seen last.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the lease: there is none.
    Create,
    /// Take the lease: it is free, or was not renewed in time.
    Acquire,
    /// Renew our lease.
    Renew,
    /// Another instance may lead until then.
    Wait(Instant),
    /// We led and may not go on.
    Lost,
}

/// What the instance `me` is to do at `now`. `until` is when its leadership ends unless it is renewed, if it leads.
pub fn decide(view: &View, me: &str, until: Option<Instant>, now: Instant) -> Step {
    let holder = view.record.as_ref().map(|record| record.holder.as_str());
    match (until, holder) {
        (Some(until), _) if now >= until => Step::Lost,
        // Others may lead already, be it because somebody took the lease from us by hand.
        (Some(_), Some(holder)) if holder != me => Step::Lost,
        (Some(_), Some(_)) => Step::Renew,
        (Some(_), None) => Step::Create,
        (None, holder) => match (view.held_until.filter(|held_until| *held_until > now), holder) {
            (Some(held_until), _) => Step::Wait(held_until),
            (None, Some(_)) => Step::Acquire,
            (None, None) => Step::Create,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rstest::rstest;

    use super::*;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn at(seconds: u64) -> Instant {
        *START + Duration::from_secs(seconds)
    }

    /// A lease of 15 seconds; the renewals are told apart by their time.
    fn lease(holder: &str, renewed: i64) -> Record {
        Record {
            holder: holder.to_owned(),
            duration: Duration::from_secs(15),
            renewed: Timestamp::from_second(renewed).ok(),
            ..Record::default()
        }
    }

    /// The lease was seen so at these seconds; we are `me`, leading until then, and it is that second.
    #[rstest]
    #[case::no_lease(&[(0, None)], None, 0, Step::Create)]
    #[case::never_read(&[], None, 0, Step::Create)]
    #[case::held(&[(0, Some(lease("other", 1)))], None, 0, Step::Wait(at(15)))]
    #[case::held_to_the_last_moment(&[(0, Some(lease("other", 1)))], None, 14, Step::Wait(at(15)))]
    #[case::expired(&[(0, Some(lease("other", 1)))], None, 15, Step::Acquire)]
    #[case::renewed(&[(0, Some(lease("other", 1))), (10, Some(lease("other", 2)))], None, 15, Step::Wait(at(25)))]
    #[case::seen_again_without_a_renewal(&[(0, Some(lease("other", 1))), (10, Some(lease("other", 1)))], None, 15, Step::Acquire)]
    #[case::renewal_time_of_a_clock_that_is_behind(&[(0, Some(lease("other", -9_999)))], None, 14, Step::Wait(at(15)))]
    #[case::renewal_time_of_a_clock_that_is_ahead(&[(0, Some(lease("other", 9_999)))], None, 15, Step::Acquire)]
    #[case::taken_by_a_third(&[(0, Some(lease("other", 1))), (14, Some(lease("third", 1)))], None, 20, Step::Wait(at(29)))]
    #[case::released(&[(0, Some(lease("other", 1))), (1, Some(lease("", 2)))], None, 1, Step::Acquire)]
    #[case::found_released(&[(0, Some(lease("", 2)))], None, 0, Step::Acquire)]
    #[case::deleted_while_its_holder_may_act(&[(0, Some(lease("other", 1))), (1, None)], None, 14, Step::Wait(at(15)))]
    #[case::deleted_and_expired(&[(0, Some(lease("other", 1))), (1, None)], None, 15, Step::Create)]
    #[case::taken_by_us_without_our_knowing(&[(0, Some(lease("me", 1)))], None, 0, Step::Acquire)]
    #[case::ours(&[(0, Some(lease("me", 1)))], Some(10), 2, Step::Renew)]
    #[case::ours_too_late(&[(0, Some(lease("me", 1)))], Some(10), 10, Step::Lost)]
    #[case::ours_deleted(&[(0, Some(lease("me", 1))), (1, None)], Some(10), 2, Step::Create)]
    #[case::ours_deleted_too_late(&[(0, Some(lease("me", 1))), (1, None)], Some(10), 10, Step::Lost)]
    #[case::ours_taken(&[(0, Some(lease("me", 1))), (1, Some(lease("other", 2)))], Some(10), 2, Step::Lost)]
    #[case::ours_cleared_by_hand(&[(0, Some(lease("me", 1))), (1, Some(lease("", 2)))], Some(10), 2, Step::Lost)]
    fn table(
        #[case] seen: &[(u64, Option<Record>)],
        #[case] until: Option<u64>,
        #[case] now: u64,
        #[case] expected: Step,
    ) {
        let mut view = View::default();
        for (second, record) in seen {
            view.observe(record.clone(), "me", at(*second));
        }
        assert_eq!(decide(&view, "me", until.map(at), at(now)), expected);
    }
}
