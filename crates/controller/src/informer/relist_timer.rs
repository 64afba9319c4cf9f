//! The timer for an informer's relists.

use std::time::Duration;

use tokio::time::Instant;

/// The timer for relists because of undecodable objects or missed events.
///
/// An object that was damaged in transit is intact in the next list. An object that is stored
/// undecodable is so in every list, so the interval doubles with each relist. The interval is reset
/// only after a time without undecodable objects: a tenant who creates and deletes such objects
/// must not cause a list of the whole cluster each time.
pub(super) struct RelistTimer {
    pub(super) initial_interval: Duration,
    /// The interval before the next relist for an undecodable object.
    interval: Duration,
    /// The due time of the next relist, and the interval before it.
    scheduled: Option<(Instant, Duration)>,
    last_undecodable: Option<Instant>,
}

impl RelistTimer {
    const MAX_INTERVAL: Duration = Duration::from_mins(5);

    pub(super) fn new(interval: Duration) -> Self {
        Self { initial_interval: interval, interval, scheduled: None, last_undecodable: None }
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        self.scheduled.map(|(at, _)| at)
    }

    /// Schedules a relist for missed events. A relist that is already scheduled isn't delayed.
    pub(super) fn schedule_for_missed_events(&mut self) {
        let interval = self.initial_interval;
        let relist = (Instant::now() + interval, interval);
        self.scheduled = self.scheduled.into_iter().chain([relist]).min();
    }

    /// Schedules a relist for an undecodable object. A relist that is already scheduled stays.
    pub(super) fn schedule_for_undecodable(&mut self) {
        let now = Instant::now();
        let max = self.max_interval();
        let last = self.last_undecodable.replace(now);
        if last.is_none_or(|last| now.duration_since(last) > 2 * max) {
            self.interval = self.initial_interval;
        }
        if self.scheduled.is_none() {
            self.scheduled = Some((now + self.interval, self.interval));
            self.interval = (self.interval * 2).min(max);
        }
    }

    fn max_interval(&self) -> Duration {
        Self::MAX_INTERVAL.max(self.initial_interval)
    }

    pub(super) fn list_started(&mut self) {
        self.scheduled = None;
    }

    /// Restarts the interval of a scheduled relist, because intervals count from the end of a list.
    pub(super) fn list_finished(&mut self) {
        if let Some((at, interval)) = &mut self.scheduled {
            *at = Instant::now() + *interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    /// Schedules a relist for an undecodable object. Returns the time until the relist is due.
    fn schedule_interval(timer: &mut RelistTimer) -> Duration {
        timer.schedule_for_undecodable();
        timer.due_at().expect("a relist").duration_since(Instant::now())
    }

    /// A list that contains no undecodable object.
    fn complete_list(timer: &mut RelistTimer) {
        timer.list_started();
        timer.list_finished();
        assert_eq!(timer.due_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn list_without_undecodable_objects_does_not_reset_the_interval() {
        let mut timer = RelistTimer::new(INTERVAL);
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            let interval = schedule_interval(&mut timer);
            assert_eq!(interval, Duration::from_secs(seconds));
            tokio::time::advance(interval).await;
            complete_list(&mut timer);
        }
        tokio::time::advance(Duration::from_secs(601)).await;
        assert_eq!(schedule_interval(&mut timer), INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn interval_for_missed_events_is_constant() {
        let mut timer = RelistTimer::new(INTERVAL);
        schedule_interval(&mut timer);
        complete_list(&mut timer);
        for _ in 0..3 {
            timer.schedule_for_missed_events();
            assert_eq!(timer.due_at(), Some(Instant::now() + INTERVAL));
            tokio::time::advance(INTERVAL).await;
            complete_list(&mut timer);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn missed_events_bring_a_relist_forward() {
        let mut timer = RelistTimer::new(INTERVAL);
        while schedule_interval(&mut timer) < RelistTimer::MAX_INTERVAL {
            complete_list(&mut timer);
        }
        timer.schedule_for_missed_events();
        let due = Some(Instant::now() + INTERVAL);
        assert_eq!(timer.due_at(), due);
        tokio::time::advance(INTERVAL / 2).await;
        timer.schedule_for_missed_events();
        assert_eq!(timer.due_at(), due, "a second failure doesn't delay it");
    }

    #[tokio::test(start_paused = true)]
    async fn interval_starts_at_the_end_of_the_list() {
        let mut timer = RelistTimer::new(INTERVAL);
        timer.list_started();
        timer.schedule_for_undecodable();
        tokio::time::advance(INTERVAL / 2).await;
        timer.list_finished();
        assert_eq!(timer.due_at(), Some(Instant::now() + INTERVAL));
    }
}
