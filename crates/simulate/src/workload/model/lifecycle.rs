//! The lifecycle of a pod. All times are simulated seconds since the start.

/// The backoff before the second restart, in seconds. It doubles with each further crash.
const FIRST_BACKOFF: f64 = 10.0;
/// The longest backoff, in seconds.
const MAX_BACKOFF: f64 = 300.0;
/// If a container ran for longer than this number of seconds, a crash resets the backoff.
const BACKOFF_RESET: f64 = 600.0;

/// The state of a pod. `until` is the time of the next transition, and `since` that of the last
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PodState {
    /// Waiting for a node.
    Pending { until: f64 },
    /// The containers are being created.
    Creating { until: f64 },
    /// The containers run, but the pod isn't ready yet.
    Warming { until: f64 },
    /// Serves load.
    Ready,
    /// Fails its readiness probe for a while.
    Unready { until: f64 },
    /// The main container crashed and waits for its restart.
    Backoff { until: f64 },
    /// Evicted. The failed object remains.
    Evicted { since: f64 },
    /// Deleted, with the grace period running.
    Terminating { until: f64 },
}

/// The durations of a pod's states, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    pub scheduling: f64,
    pub starting: f64,
    pub readiness: f64,
    pub termination: f64,
}

impl Default for PodState {
    fn default() -> Self {
        Self::Pending { until: 0.0 }
    }
}

/// A pod's state and the times of its transitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lifecycle {
    pub state: PodState,
    pub delays: Delays,
    pub created_at: f64,
    pub scheduled_at: Option<f64>,
    pub running_since: Option<f64>,
    /// The last transition of the condition `Ready`.
    pub ready_transition: f64,
    pub restarts: u32,
    pub last_crash_at: Option<f64>,
    /// Whether no node was free when scheduling was due.
    pub unschedulable: bool,
    /// Crashes that count for the backoff.
    crashes: i32,
}

impl Lifecycle {
    pub fn new(now: f64, delays: Delays) -> Self {
        Self {
            state: PodState::Pending { until: now + delays.scheduling },
            delays,
            created_at: now,
            ready_transition: now,
            ..Self::default()
        }
    }

    /// Makes all transitions that are due. The pod is scheduled only if `has_node`. Returns whether
    /// the state has changed or the pod has become unschedulable.
    pub fn advance(&mut self, now: f64, has_node: bool) -> bool {
        let is_unschedulable =
            !has_node && matches!(self.state, PodState::Pending { until } if until <= now);
        let mut changed = is_unschedulable && !self.unschedulable;
        self.unschedulable |= is_unschedulable;
        while let Some(next) = self.due_transition(now, has_node) {
            self.enter(next);
            changed = true;
        }
        changed
    }

    /// The time and the new state of the next transition, if it is due.
    fn due_transition(&self, now: f64, has_node: bool) -> Option<(f64, PodState)> {
        let (at, next) = match self.state {
            PodState::Pending { until } if has_node => {
                // A pod that waited for a node is scheduled now.
                let at = if self.unschedulable { now } else { until };
                (at, PodState::Creating { until: at + self.delays.starting })
            }
            PodState::Creating { until } | PodState::Backoff { until } => {
                (until, PodState::Warming { until: until + self.delays.readiness })
            }
            PodState::Warming { until } | PodState::Unready { until } => (until, PodState::Ready),
            PodState::Pending { .. }
            | PodState::Ready
            | PodState::Evicted { .. }
            | PodState::Terminating { .. } => return None,
        };
        (at <= now).then_some((at, next))
    }

    fn enter(&mut self, (at, next): (f64, PodState)) {
        match next {
            PodState::Creating { .. } => self.scheduled_at = Some(at),
            PodState::Warming { .. } => self.running_since = Some(at),
            PodState::Ready => self.ready_transition = at,
            // Due transitions don't lead to other states.
            _ => {}
        }
        self.state = next;
    }

    /// Moves the whole lifecycle into the past: at second 0, the pod has been ready for `age`
    /// seconds.
    pub fn set_ready_for(&mut self, age: f64) {
        let Delays { scheduling, starting, readiness, .. } = self.delays;
        *self = Self::new(-age - scheduling - starting - readiness, self.delays);
        self.advance(0.0, true);
    }

    /// Crashes the main container, which restarts after the backoff.
    pub fn crash(&mut self, now: f64) {
        if !self.is_running() {
            return;
        }
        if self.running_since.is_some_and(|since| now - since > BACKOFF_RESET) {
            self.crashes = 0;
        }
        let backoff =
            if self.crashes == 0 { 0.0 } else { FIRST_BACKOFF * 2_f64.powi(self.crashes - 1) };
        self.crashes = self.crashes.saturating_add(1);
        self.restarts = self.restarts.saturating_add(1);
        self.last_crash_at = Some(now);
        self.record_unready(now);
        self.running_since = None;
        self.state = PodState::Backoff { until: now + backoff.min(MAX_BACKOFF) };
    }

    /// Fails the readiness probe for `duration` seconds.
    pub fn flap(&mut self, now: f64, duration: f64) {
        if self.is_ready() {
            self.record_unready(now);
            self.state = PodState::Unready { until: now + duration };
        }
    }

    /// Evicts the pod, as the kubelet does under node pressure.
    pub fn evict(&mut self, now: f64) {
        if self.is_active() {
            self.record_unready(now);
            self.running_since = None;
            self.state = PodState::Evicted { since: now };
        }
    }

    /// Starts the graceful termination.
    pub fn terminate(&mut self, now: f64) {
        // Without a running container there is nothing to terminate.
        let grace = if self.running_since.is_some() { self.delays.termination } else { 0.0 };
        self.record_unready(now);
        self.state = PodState::Terminating { until: now + grace };
    }

    fn record_unready(&mut self, now: f64) {
        if self.is_ready() {
            self.ready_transition = now;
        }
    }

    pub fn is_ready(&self) -> bool {
        self.state == PodState::Ready
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, PodState::Warming { .. } | PodState::Ready | PodState::Unready { .. })
    }

    /// Whether the containers run, or ran until a crash.
    pub fn has_run(&self) -> bool {
        self.running_since.is_some() || self.restarts > 0
    }

    /// Whether controllers count the pod as a replica.
    pub fn is_active(&self) -> bool {
        !matches!(self.state, PodState::Evicted { .. } | PodState::Terminating { .. })
    }

    /// Whether the pod has been ready for `min_ready` seconds.
    pub fn is_available(&self, now: f64, min_ready: f64) -> bool {
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
    fn pod_becomes_ready_after_its_delays() {
        let mut pod = Lifecycle::new(0.0, DELAYS);
        assert!(!pod.advance(0.9, true));
        assert!(pod.advance(9.9, true));
        assert!(!pod.is_ready());
        // Advancing late doesn't change the times of the transitions.
        assert!(pod.advance(50.0, true));
        assert_eq!(
            (pod.is_ready(), pod.scheduled_at, pod.running_since, pod.ready_transition),
            (true, Some(1.0), Some(4.0), 10.0)
        );
    }

    #[test]
    fn pod_waits_for_a_node() {
        let mut pod = Lifecycle::new(0.0, DELAYS);
        assert!(pod.advance(1.0, false) && pod.unschedulable);
        assert!(!pod.advance(20.0, false));
        pod.advance(30.0, true);
        assert_eq!(pod.state, PodState::Creating { until: 33.0 });
    }

    #[test]
    fn restart_backoff_doubles_up_to_a_limit_and_resets() {
        let mut pod = ready();
        let mut backoffs = Vec::new();
        for _ in 0..8 {
            let now = pod.ready_transition + 1.0;
            pod.crash(now);
            let PodState::Backoff { until } = pod.state else { panic!("{pod:?}") };
            backoffs.push(until - now);
            pod.advance(until + DELAYS.readiness, true);
            assert!(pod.is_ready());
        }
        assert_eq!(backoffs, [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
        assert_eq!(pod.restarts, 8);
        pod.crash(pod.ready_transition + 601.0);
        assert!(
            matches!(pod.state, PodState::Backoff { until } if Some(until) == pod.last_crash_at)
        );
    }

    #[test]
    fn flapping_pod_becomes_ready_again() {
        let mut pod = ready();
        pod.flap(20.0, 15.0);
        assert_eq!((pod.is_ready(), pod.is_running(), pod.ready_transition), (false, true, 20.0));
        pod.advance(35.0, true);
        assert_eq!((pod.is_ready(), pod.ready_transition), (true, 35.0));
        assert!(!pod.is_available(40.0, 10.0) && pod.is_available(45.0, 10.0));
    }

    #[test]
    fn eviction_fails_a_pod_and_deletion_starts_its_termination() {
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
