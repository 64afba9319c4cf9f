//! What a pod goes through. All delays are simulated seconds since the start.

/// The first pause before a crashed container starts again; each further one is twice as long.
const FIRST_BACKOFF: f64 = 10.0;
/// The longest of these pauses.
const MAX_BACKOFF: f64 = 300.0;
/// A container that has run this long is no longer held to have crashed before.
const BACKOFF_RESET: f64 = 600.0;

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PodState {
    /// It has no node yet.
    Pending { until: f64 },
    /// Its images are pulled.
    Creating { until: f64 },
    /// Its containers run, but it is not ready.
    Warming { until: f64 },
    /// It takes load.
    Ready,
    /// It was ready and is not for a while.
    Unready { until: f64 },
    /// Its container crashed and is_unschedulable to start again.
    Backoff { until: f64 },
    /// It was evicted and stays as failed.
    Evicted { since: f64 },
    /// It was deleted and is on its way out.
    Terminating { until: f64 },
}

/// How long a pod's steps take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    pub(crate) scheduling: f64,
    pub(crate) starting: f64,
    pub(crate) readiness: f64,
    pub(crate) termination: f64,
}

/// A pod's state, and when what happened to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lifecycle {
    pub(crate) state: PodState,
    pub(crate) delays: Delays,
    pub(crate) created_at: f64,
    pub(crate) scheduled_at: Option<f64>,
    /// Since when the present container runs.
    pub(crate) running_since: Option<f64>,
    /// When it last became ready or unready.
    pub(crate) ready_transition: f64,
    pub(crate) restarts: u32,
    pub(crate) last_crash_at: Option<f64>,
    /// There was no node for it when it wanted one.
    pub(crate) unschedulable: bool,
    /// Crashes that the pause before the next start counts.
    crashes: i32,
}

impl Lifecycle {
    pub(crate) fn new(now: f64, delays: Delays) -> Self {
        Self {
            state: PodState::Pending { until: now + delays.scheduling },
            delays,
            created_at: now,
            scheduled_at: None,
            running_since: None,
            ready_transition: now,
            restarts: 0,
            last_crash_at: None,
            unschedulable: false,
            crashes: 0,
        }
    }

    /// Goes through all that is due, and tells whether anything was. A pod is only given a node if there is one.
    pub(crate) fn advance(&mut self, now: f64, has_node: bool) -> bool {
        let is_unschedulable =
            !has_node && matches!(self.state, PodState::Pending { until } if until <= now);
        let mut changed = is_unschedulable && !self.unschedulable;
        self.unschedulable |= is_unschedulable;
        while let Some(next) = self.due(now, has_node) {
            self.enter(next);
            changed = true;
        }
        changed
    }

    /// When the next step is due and what it leads to.
    fn due(&self, now: f64, has_node: bool) -> Option<(f64, PodState)> {
        let (at, next) = match self.state {
            PodState::Pending { until } if has_node => {
                // Whoever had to wait for a node has it only now.
                let at = if self.unschedulable { now } else { until };
                (at, PodState::Creating { until: at + self.delays.starting })
            }
            PodState::Creating { until } | PodState::Backoff { until } => {
                (until, PodState::Warming { until: until + self.delays.readiness })
            }
            PodState::Warming { until } | PodState::Unready { until } => (until, PodState::Ready),
            _ => return None,
        };
        (at <= now).then_some((at, next))
    }

    fn enter(&mut self, (at, next): (f64, PodState)) {
        match next {
            PodState::Creating { .. } => self.scheduled_at = Some(at),
            PodState::Warming { .. } => self.running_since = Some(at),
            PodState::Ready => self.ready_transition = at,
            _ => {}
        }
        self.state = next;
    }

    /// Makes a pod at the start as if it had been ready for so long.
    pub(crate) fn set_ready_for(&mut self, age: f64) {
        let Delays { scheduling, starting, readiness, .. } = self.delays;
        *self = Self::new(-age - scheduling - starting - readiness, self.delays);
        self.advance(0.0, true);
    }

    /// The container ends and starts again after a pause.
    pub(crate) fn crash(&mut self, now: f64) {
        if !self.is_running() {
            return;
        }
        if self.running_since.is_some_and(|since| now - since > BACKOFF_RESET) {
            self.crashes = 0;
        }
        let pause =
            if self.crashes == 0 { 0.0 } else { FIRST_BACKOFF * 2_f64.powi(self.crashes - 1) };
        self.crashes = self.crashes.saturating_add(1);
        self.restarts = self.restarts.saturating_add(1);
        self.last_crash_at = Some(now);
        self.set_unready(now);
        self.running_since = None;
        self.state = PodState::Backoff { until: now + pause.min(MAX_BACKOFF) };
    }

    /// It fails its readiness probe for a while.
    pub(crate) fn flap(&mut self, now: f64, duration: f64) {
        if self.is_ready() {
            self.set_unready(now);
            self.state = PodState::Unready { until: now + duration };
        }
    }

    /// The kubelet throws it out; its object stays.
    pub(crate) fn evict(&mut self, now: f64) {
        if self.is_active() {
            self.set_unready(now);
            self.running_since = None;
            self.state = PodState::Evicted { since: now };
        }
    }

    /// It was deleted.
    pub(crate) fn terminate(&mut self, now: f64) {
        // What does not run has nothing to end.
        let grace = if self.running_since.is_some() { self.delays.termination } else { 0.0 };
        self.set_unready(now);
        self.state = PodState::Terminating { until: now + grace };
    }

    fn set_unready(&mut self, now: f64) {
        if self.is_ready() {
            self.ready_transition = now;
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == PodState::Ready
    }

    /// Whether its containers run.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, PodState::Warming { .. } | PodState::Ready | PodState::Unready { .. })
    }

    /// Whether it counts as one of its owner's pods.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state, PodState::Evicted { .. } | PodState::Terminating { .. })
    }

    /// Whether it has been ready for at least that long.
    pub(crate) fn is_available(&self, now: f64, min_ready: f64) -> bool {
        self.is_ready() && now - self.ready_transition >= min_ready
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]

    use super::{Delays, Lifecycle, PodState};

    const DELAYS: Delays =
        Delays { scheduling: 1.0, starting: 3.0, readiness: 6.0, termination: 5.0 };

    fn ready() -> Lifecycle {
        let mut pod = Lifecycle::new(0.0, DELAYS);
        pod.advance(10.0, true);
        pod
    }

    #[test]
    fn becomes_ready_when_its_times_have_passed() {
        let mut pod = Lifecycle::new(0.0, DELAYS);
        assert!(!pod.advance(0.9, true));
        assert!(pod.advance(9.9, true));
        assert!(!pod.is_ready());
        // Late looks do not make it later.
        assert!(pod.advance(50.0, true));
        assert_eq!(
            (pod.is_ready(), pod.scheduled_at, pod.running_since, pod.ready_transition),
            (true, Some(1.0), Some(4.0), 10.0)
        );
    }

    #[test]
    fn waits_for_a_node() {
        let mut pod = Lifecycle::new(0.0, DELAYS);
        assert!(pod.advance(1.0, false) && pod.unschedulable);
        assert!(!pod.advance(20.0, false));
        pod.advance(30.0, true);
        assert_eq!(pod.state, PodState::Creating { until: 33.0 });
    }

    #[test]
    fn crashes_with_longer_and_longer_pauses() {
        let mut pod = ready();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let now = pod.ready_transition + 1.0;
            pod.crash(now);
            let PodState::Backoff { until } = pod.state else { panic!("{pod:?}") };
            pauses.push(until - now);
            pod.advance(until + DELAYS.readiness, true);
            assert!(pod.is_ready());
        }
        assert_eq!(pauses, [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
        assert_eq!(pod.restarts, 8);
        pod.crash(pod.ready_transition + 601.0);
        assert!(
            matches!(pod.state, PodState::Backoff { until } if Some(until) == pod.last_crash_at)
        );
    }

    #[test]
    fn flaps_and_comes_back() {
        let mut pod = ready();
        pod.flap(20.0, 15.0);
        assert_eq!((pod.is_ready(), pod.is_running(), pod.ready_transition), (false, true, 20.0));
        pod.advance(35.0, true);
        assert_eq!((pod.is_ready(), pod.ready_transition), (true, 35.0));
        assert!(!pod.is_available(40.0, 10.0) && pod.is_available(45.0, 10.0));
    }

    #[test]
    fn ends_by_eviction_or_deletion() {
        let mut pod = ready();
        pod.evict(20.0);
        assert!(!pod.is_active() && !pod.advance(1e6, true));
        let mut pod = ready();
        pod.terminate(20.0);
        assert_eq!(pod.state, PodState::Terminating { until: 25.0 });
        let mut pod = Lifecycle::new(0.0, DELAYS);
        pod.terminate(0.5);
        assert_eq!(pod.state, PodState::Terminating { until: 0.5 });
    }
}
