//! Looks for a peer at the start: another controller that is active on the same autoscalers.

use std::{cmp::Reverse, collections::BTreeSet, fmt, time::Duration};

use hpa_calc::settings::Settings;
use jiff::{SignedDuration, Timestamp};

use crate::{cache::Autoscalers, k8s::StatusWrite, key::HpaKey, settings::SettingSource};

/// The default sync period of kube-controller-manager. A peer may have this period although this
/// controller's is shorter.
const DEFAULT_PEER_PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// Status writes in this many namespaces prove that a peer is active. Those in one or two of
/// several namespaces may be forged by one tenant, who must not be able to prevent the start.
const PROVING_NAMESPACES: usize = 3;

/// The time for which a status write shows that its writer is active: two sync periods of either
/// controller, at least 30 s, twice the default period of the reference.
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
        !write.is_ahead_of(now) && now.duration_since(write.at) <= self.length(settings)
    }
}

/// A peer that wrote the status of an autoscaler shortly before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePeer {
    /// The autoscaler with the latest such write.
    pub key: HpaKey,
    pub write: StatusWrite,
    /// The time from the write to the start.
    pub age: SignedDuration,
    /// The number of other autoscalers with such a write.
    pub other_autoscaler_count: usize,
    /// The number of namespaces with such a write.
    pub namespace_count: usize,
    /// The number of namespaces with autoscalers that could have such a write.
    pub all_namespace_count: usize,
    /// No counted write is older than this: the longest window of these autoscalers, see
    /// [`PeerWindow`].
    pub window: SignedDuration,
}

impl ActivePeer {
    /// Whether enough namespaces have such a write that a tenant of one or two of them can't have
    /// forged them all. If all namespaces have one, a forged one harms no other namespace.
    pub fn is_proven(&self) -> bool {
        self.namespace_count >= self.all_namespace_count.min(PROVING_NAMESPACES)
    }
}

impl fmt::Display for ActivePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, write, age, other_autoscaler_count, window, .. } = self;
        let StatusWrite { manager, at } = write;
        let seconds = age.as_secs();
        write!(f, "{manager} wrote the status of autoscaler {key} {seconds}s ago ({at})")?;
        if *other_autoscaler_count > 0 {
            write!(
                f,
                ", one of {} autoscalers with such a write within the last {window:#}",
                other_autoscaler_count + 1
            )?;
        }
        Ok(())
    }
}

/// The peer with the latest status write, if one is active. Call this after the first list, before
/// this controller writes a status.
///
/// Autoscalers in shadow mode don't count, because they are expected to have a peer. Writes of other
/// releases of hpa-rs count only if there is no other write. A peer writes no status while nothing
/// changes, so a peer may be active although none is returned.
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
    recent.sort_unstable_by_key(|(key, write, _)| (Reverse(write.at), key.clone()));
    let window = recent.iter().map(|(_, _, window)| *window).max()?;
    let namespaces: BTreeSet<_> = recent.iter().map(|(key, ..)| key.namespace.clone()).collect();
    let other_autoscaler_count = recent.len().saturating_sub(1);
    let (key, write, _) = recent.into_iter().next()?;
    // The clocks of this machine and of the API server may differ.
    let age = now.duration_since(write.at).max(SignedDuration::ZERO);
    Some(ActivePeer {
        key,
        write,
        age,
        other_autoscaler_count,
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

    /// Autoscalers whose status kube-controller-manager wrote at this second.
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
        let text = "kube-controller-manager wrote the status of autoscaler shop/web 30s ago \
                    (1970-01-01T00:01:40Z)";
        assert_eq!(peer_text(&[("web", 100)], 130).as_deref(), Some(text));
        assert_eq!(peer_text(&[("web", 100)], 131), None);
        assert_eq!(peer_text(&[], 131), None);
    }

    #[rstest]
    #[case::shorter_than_that_of_the_peer(5, 30)]
    #[case::longer_than_that_of_the_peer(20, 40)]
    fn window_includes_two_periods_of_both_controllers(#[case] period: u64, #[case] window: i64) {
        let all = autoscalers(&[("web", 100)]);
        let find = |age| find(&all, Duration::from_secs(period), 100 + age);
        let peer = find(window).expect("a peer");
        assert_eq!(peer.window, SignedDuration::from_secs(window));
        assert_eq!(find(window + 1), None);
    }

    #[test]
    fn latest_write_is_named_and_the_others_are_counted() {
        let text = "kube-controller-manager wrote the status of autoscaler shop/api 0s ago \
                    (1970-01-01T00:01:45Z), one of 2 autoscalers with such a write within the last \
                    30s";
        let writes = [("web", 100), ("api", 105), ("old", 10)];
        assert_eq!(
            peer_text(&writes, 104).as_deref(),
            Some(text),
            "the API server's clock is ahead"
        );
    }

    #[test]
    fn longer_period_of_an_autoscaler_counts() {
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
        assert_eq!(peer_text(&[("web", 1000)], 699), None);
        assert!(peer_text(&[("web", 1000)], 700).is_some(), "the clocks may differ");
    }

    /// The namespaces with a recent write, all namespaces, and whether a peer is proven.
    #[rstest]
    #[case::one_of_one(1, 1, true)]
    #[case::one_of_two(1, 2, false)]
    #[case::two_of_two(2, 2, true)]
    #[case::two_of_many(2, 9, false)]
    #[case::three_of_many(3, 9, true)]
    fn writes_in_few_namespaces_prove_no_peer(
        #[case] with_write: usize,
        #[case] all: usize,
        #[case] is_proven: bool,
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
        assert_eq!(peer.is_proven(), is_proven);
    }

    #[test]
    fn later_write_of_a_release_does_not_hide_a_peer() {
        let autoscalers = autoscalers(&[("web", 100)]);
        add(&autoscalers, &HpaKey::new("shop", "api"), "hpa-controller:other/hpa", 105);
        let peer = find(&autoscalers, PERIOD, 110).expect("a peer");
        assert_eq!((&*peer.key.name, peer.other_autoscaler_count), ("web", 0));
    }
}
