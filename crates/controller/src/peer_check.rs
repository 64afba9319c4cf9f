//! Looks for a peer at the start: another controller that is active on the same autoscalers.
//!
//! The evidence is the time of an autoscaler's last status write in `managedFields`. A user who may
//! write the autoscaler can forge it, so it counts only for autoscalers of the same namespace:
//!
//! - If all namespaces with autoscalers have a recent write, the start is refused. A user who can
//!   forge all of these writes may change all autoscalers anyway.
//! - Otherwise, the controller starts. It leaves an autoscaler alone while the last write of a peer
//!   to that autoscaler's status is recent. So a real peer keeps the autoscalers that it writes,
//!   and a forged write delays only the autoscaler that has it.
//!
//! The lease of kube-controller-manager is no evidence: it is also renewed while the HPA controller
//! is switched off.

use std::{cmp::Reverse, collections::BTreeSet, fmt, time::Duration};

use hpa_calc::settings::Settings;
use jiff::{SignedDuration, Timestamp};

use crate::{
    cache::Autoscalers,
    k8s::{StatusWrite, is_clearly_after},
    key::HpaKey,
    settings::SettingSource,
};

/// The default sync period of kube-controller-manager. A peer may have this period although this
/// controller's is shorter.
const DEFAULT_PEER_PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// The time for which a status write shows that its writer is active: twice the longest of this
/// controller's sync period, the autoscaler's own, and the peer's default period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWindow {
    /// The longer of this controller's period and the default period of a peer.
    period: SignedDuration,
}

impl PeerWindow {
    /// The window of a controller with this sync period.
    pub fn new(sync_period: Duration) -> Self {
        let period = SignedDuration::try_from(sync_period).unwrap_or(SignedDuration::MAX);
        Self { period: period.max(DEFAULT_PEER_PERIOD) }
    }

    /// The length for an autoscaler with these settings. The peer may ignore the autoscaler's own
    /// sync period, so a shorter one doesn't count.
    fn length(self, settings: &Settings) -> SignedDuration {
        settings.sync_period.unwrap_or(self.period).max(self.period).saturating_mul(2)
    }

    /// Whether a write of the status of an autoscaler with these settings is recent.
    pub(crate) fn includes(self, write: &StatusWrite, settings: &Settings, now: Timestamp) -> bool {
        !is_clearly_after(write.at, now) && now.duration_since(write.at) <= self.length(settings)
    }
}

/// A peer that wrote the status of an autoscaler shortly before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePeer {
    /// The autoscaler with the latest such write.
    pub key: HpaKey,
    pub write: StatusWrite,
    /// The time from the write to the start. Negative if the clock of the API server is ahead.
    pub age: SignedDuration,
    /// The number of autoscalers with such a write by the same field manager.
    pub autoscaler_count: usize,
    /// The number of namespaces with such a write by any peer.
    pub namespace_count: usize,
    /// The number of namespaces with autoscalers that could have such a write.
    pub all_namespace_count: usize,
    /// No counted write is older than this: the longest window of these autoscalers, see
    /// [`PeerWindow`].
    pub window: SignedDuration,
}

impl ActivePeer {
    /// Whether all namespaces with autoscalers have such a write. A tenant of some namespaces can't
    /// forge the writes in the others.
    pub fn is_in_all_namespaces(&self) -> bool {
        self.namespace_count == self.all_namespace_count
    }

    /// The whole seconds after which none of these writes is recent.
    pub fn time_until_inactive(&self) -> SignedDuration {
        let seconds = self.window.saturating_sub(self.age).as_secs();
        SignedDuration::from_secs(seconds.saturating_add(1))
    }
}

/// Names the source, because a user can forge the field manager and the time.
impl fmt::Display for ActivePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, write, age, autoscaler_count, window, .. } = self;
        let StatusWrite { manager, at } = write;
        write!(f, "according to managedFields, field manager {manager} wrote the status of ")?;
        if *autoscaler_count > 1 {
            write!(f, "{autoscaler_count} autoscalers within the last {window:#}, most recently ")?;
        } else {
            f.write_str("autoscaler ")?;
        }
        match age.as_secs() {
            seconds @ 0.. => write!(f, "{key} {seconds}s ago ({at})"),
            seconds => write!(f, "{key} at {at}, {}s ahead of this clock", seconds.unsigned_abs()),
        }
    }
}

/// The peer with the latest status write, if one is active. Call this after the first list, before
/// this controller writes a status.
///
/// Autoscalers in shadow mode don't count, because they are expected to have a peer. Writes of
/// another Helm release of hpa-rs count only if there are no writes of other controllers. A peer
/// writes no status while nothing changes, so a peer may be active although none is returned.
pub(crate) fn active_peer(
    autoscalers: &Autoscalers,
    settings: &SettingSource,
    window: PeerWindow,
    now: Timestamp,
) -> Option<ActivePeer> {
    let mut all_namespaces = BTreeSet::new();
    let mut recent = Vec::new();
    for (key, autoscaler) in autoscalers.all() {
        let settings = autoscaler.settings(settings);
        if settings.dry_run {
            continue;
        }
        all_namespaces.insert(key.namespace.clone());
        let write = autoscaler.peer_writes.last();
        if let Some(write) = write.filter(|write| window.includes(write, &settings, now)) {
            recent.push((key, write, window.length(&settings)));
        }
    }
    if recent.iter().any(|(_, write, _)| !write.is_by_hpa_rs()) {
        recent.retain(|(_, write, _)| !write.is_by_hpa_rs());
    }
    let window = recent.iter().map(|(_, _, window)| *window).max()?;
    let namespaces: BTreeSet<_> = recent.iter().map(|(key, ..)| key.namespace.clone()).collect();
    let latest = recent.iter().min_by_key(|(key, write, _)| (Reverse(write.at), key.clone()))?;
    let (key, write, _) = latest.clone();
    let is_by_same_manager = |other: &StatusWrite| other.manager == write.manager;
    let autoscaler_count = recent.iter().filter(|(_, write, _)| is_by_same_manager(write)).count();
    let age = now.duration_since(write.at);
    Some(ActivePeer {
        key,
        write,
        age,
        autoscaler_count,
        namespace_count: namespaces.len(),
        all_namespace_count: all_namespaces.len(),
        window,
    })
}

#[cfg(test)]
mod tests {
    use hpa_calc::api::HorizontalPodAutoscaler;
    use rstest::rstest;

    use super::*;
    use crate::cache::Origin;

    const PERIOD: Duration = Duration::from_secs(15);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// Adds an autoscaler whose status this manager wrote at this second.
    fn add(autoscalers: &Autoscalers, key: &HpaKey, manager: &str, second: i64) {
        autoscalers.apply(key, HorizontalPodAutoscaler::default(), Origin::List);
        let write = StatusWrite { manager: manager.into(), at: at(second) };
        autoscalers.get(key).expect("cached").peer_writes.observe(write, true);
    }

    /// Autoscalers of namespace `shop`: each name, and the second at which kube-controller-manager
    /// wrote the status.
    fn autoscalers(writes: &[(&str, i64)]) -> Autoscalers {
        let autoscalers = Autoscalers::default();
        for (name, second) in writes {
            add(&autoscalers, &HpaKey::new("shop", *name), "kube-controller-manager", *second);
        }
        autoscalers
    }

    fn find(autoscalers: &Autoscalers, period: Duration, now: i64) -> Option<ActivePeer> {
        let window = PeerWindow::new(period);
        active_peer(autoscalers, &SettingSource::default(), window, at(now))
    }

    fn peer_text(writes: &[(&str, i64)], now: i64) -> Option<String> {
        find(&autoscalers(writes), PERIOD, now).map(|peer| peer.to_string())
    }

    #[test]
    fn write_within_two_periods_is_found() {
        let text = "according to managedFields, field manager kube-controller-manager wrote the \
                    status of autoscaler shop/web 30s ago (1970-01-01T00:01:40Z)";
        assert_eq!(peer_text(&[("web", 100)], 130).as_deref(), Some(text));
        assert_eq!(peer_text(&[("web", 100)], 131), None);
        assert_eq!(peer_text(&[], 131), None);
    }

    #[rstest]
    #[case::shorter_than_that_of_the_peer(5, 30)]
    #[case::longer_than_that_of_the_peer(20, 40)]
    fn window_is_two_periods_of_the_slower_controller(#[case] period: u64, #[case] window: i64) {
        let all = autoscalers(&[("web", 100)]);
        let find = |age| find(&all, Duration::from_secs(period), 100 + age);
        let peer = find(window).expect("a peer");
        assert_eq!(peer.window, SignedDuration::from_secs(window));
        assert_eq!(find(window + 1), None);
    }

    #[test]
    fn latest_write_is_named_and_the_others_are_counted() {
        let text = "according to managedFields, field manager kube-controller-manager wrote the \
                    status of 2 autoscalers within the last 30s, most recently shop/api 3s ago \
                    (1970-01-01T00:01:45Z)";
        let autoscalers = autoscalers(&[("web", 100), ("api", 105), ("old", 10)]);
        add(&autoscalers, &HpaKey::new("shop", "other"), "k3s", 101);
        let peer = find(&autoscalers, PERIOD, 108).map(|peer| peer.to_string());
        assert_eq!(peer.as_deref(), Some(text));
    }

    #[test]
    fn write_ahead_of_this_clock_is_recent_for_longer() {
        let all = autoscalers(&[("web", 150)]);
        let peer = find(&all, PERIOD, 100).expect("a peer");
        let end = " autoscaler shop/web at 1970-01-01T00:02:30Z, 50s ahead of this clock";
        assert!(peer.to_string().ends_with(end), "{peer}");
        let peers = [100, 150, 170].map(|now| find(&all, PERIOD, now).expect("a peer"));
        let times = peers.map(|peer| peer.time_until_inactive().as_secs());
        assert_eq!(times, [81, 31, 11]);
        assert!(find(&all, PERIOD, 180).is_some());
        assert_eq!(find(&all, PERIOD, 181), None);
    }

    #[test]
    fn longer_own_period_of_an_autoscaler_extends_the_window() {
        let autoscalers = autoscalers(&[("web", 100)]);
        for (period, expected) in [("1m", 120), ("5s", 30)] {
            let key = HpaKey::new("shop", "web");
            let mut changed = HorizontalPodAutoscaler::default();
            let annotation = "autoscaling.hpa-rs.dev/sync-period".to_owned();
            changed.metadata.annotations.insert(annotation, period.into());
            autoscalers.apply(&key, changed, Origin::List);
            let is_active = |age: i64| find(&autoscalers, PERIOD, 100 + age).is_some();
            assert!(is_active(expected) && !is_active(expected + 1), "{period}");
        }
    }

    #[test]
    fn autoscaler_in_shadow_mode_does_not_count() {
        let autoscalers = autoscalers(&[("web", 100)]);
        let key = HpaKey::new("shop", "web");
        let mut shadowed = HorizontalPodAutoscaler::default();
        shadowed
            .metadata
            .annotations
            .insert("autoscaling.hpa-rs.dev/dry-run".into(), "true".into());
        autoscalers.apply(&key, shadowed, Origin::List);
        assert_eq!(find(&autoscalers, PERIOD, 110), None);
    }

    #[test]
    fn write_in_the_future_does_not_count() {
        assert_eq!(peer_text(&[("web", 1000)], 939), None);
        assert!(peer_text(&[("web", 1000)], 940).is_some(), "the clocks may differ");
    }

    /// The number of namespaces with a recent write, of all namespaces, and whether the start is
    /// refused.
    #[rstest]
    #[case::one_of_one(1, 1, true)]
    #[case::one_of_two(1, 2, false)]
    #[case::two_of_two(2, 2, true)]
    #[case::three_of_four(3, 4, false)]
    #[case::all_of_many(9, 9, true)]
    fn start_is_refused_only_with_writes_in_all_namespaces(
        #[case] with_write: usize,
        #[case] all: usize,
        #[case] is_in_all: bool,
    ) {
        let autoscalers = Autoscalers::default();
        for index in 0..all {
            // Two autoscalers of one namespace count once.
            for name in ["web", "api"] {
                let key = HpaKey::new(format!("tenant-{index}"), name);
                let second = if index < with_write { 1000 } else { 0 };
                add(&autoscalers, &key, "kube-controller-manager", second);
            }
        }
        let peer = find(&autoscalers, PERIOD, 1010).expect("a peer");
        assert_eq!((peer.namespace_count, peer.all_namespace_count), (with_write, all));
        assert_eq!(peer.is_in_all_namespaces(), is_in_all);
    }

    #[test]
    fn later_write_of_hpa_rs_does_not_hide_that_of_another_controller() {
        let autoscalers = autoscalers(&[("web", 100)]);
        add(&autoscalers, &HpaKey::new("shop", "api"), "hpa-controller:other/hpa", 105);
        let peer = find(&autoscalers, PERIOD, 110).expect("a peer");
        assert_eq!((&*peer.key.name, peer.autoscaler_count), ("web", 1));
    }
}
