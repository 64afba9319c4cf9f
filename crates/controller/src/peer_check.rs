//! Looks for a peer at the start: another controller that is active on the same autoscalers.

use std::{cmp::Reverse, fmt, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{cache::Autoscalers, k8s::StatusWrite, key::HpaKey, settings::SettingSource};

/// The default sync period of kube-controller-manager. A peer may have this period although this
/// controller's is shorter.
const DEFAULT_PEER_PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// A peer that wrote the status of an autoscaler shortly before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePeer {
    /// The autoscaler with the latest such write.
    pub key: HpaKey,
    pub write: StatusWrite,
    /// The time from the write to the start.
    pub age: SignedDuration,
    /// The number of other autoscalers with such a write.
    pub other_autoscalers: usize,
    /// No counted write is older than this: two sync periods, or twice the longest own period of
    /// these autoscalers. At least 30 s, twice the default period of the reference.
    pub window: SignedDuration,
}

impl fmt::Display for ActivePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, write: StatusWrite { manager, at }, age, other_autoscalers, window } = self;
        let seconds = age.as_secs();
        write!(f, "{manager} wrote the status of autoscaler {key} {seconds}s ago ({at})")?;
        if *other_autoscalers > 0 {
            write!(
                f,
                ", one of {} autoscalers with such a write within the last {window:#}",
                other_autoscalers + 1
            )?;
        }
        Ok(())
    }
}

/// The peer with the latest status write, if one is active. Call this after the first list, before
/// this controller writes a status.
///
/// Autoscalers in shadow mode don't count, because they are expected to have a peer. A peer writes
/// no status while nothing changes, so a peer may be active although none is returned.
pub(crate) fn active_peer(
    autoscalers: &Autoscalers,
    settings: &SettingSource,
    sync_period: Duration,
    now: Timestamp,
) -> Option<ActivePeer> {
    let period = SignedDuration::try_from(sync_period).unwrap_or(SignedDuration::MAX);
    let period = period.max(DEFAULT_PEER_PERIOD);
    let mut window = period.saturating_mul(2);
    let mut recent = Vec::new();
    for (key, autoscaler) in autoscalers.all() {
        let settings = autoscaler.settings(settings);
        let Some(write) = autoscaler.peer_writes.last().filter(|_| !settings.dry_run) else {
            continue;
        };
        // The peer may ignore the autoscaler's own sync period, so a shorter one doesn't count.
        let own_window = settings.sync_period.unwrap_or(period).max(period).saturating_mul(2);
        if now.duration_since(write.at) <= own_window {
            window = window.max(own_window);
            recent.push((key, write));
        }
    }
    recent.sort_unstable_by_key(|(key, write)| (Reverse(write.at), key.clone()));
    let other_autoscalers = recent.len().saturating_sub(1);
    let (key, write) = recent.into_iter().next()?;
    // The clocks of this machine and of the API server may differ.
    let age = now.duration_since(write.at).max(SignedDuration::ZERO);
    Some(ActivePeer { key, write, age, other_autoscalers, window })
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

    /// Autoscalers whose status kube-controller-manager wrote at this second.
    fn autoscalers(writes: &[(&str, i64)]) -> Autoscalers {
        let autoscalers = Autoscalers::default();
        for (name, second) in writes {
            let key = HpaKey::new("shop", *name);
            autoscalers.apply(&key, HorizontalPodAutoscaler::default(), Origin::List);
            let write = StatusWrite { manager: "kube-controller-manager".into(), at: at(*second) };
            autoscalers.get(&key).expect("cached").peer_writes.observe(write, true);
        }
        autoscalers
    }

    fn peer_text(writes: &[(&str, i64)], now: i64) -> Option<String> {
        active_peer(&autoscalers(writes), &SettingSource::default(), PERIOD, at(now))
            .map(|peer| peer.to_string())
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
        let (all, settings) = (autoscalers(&[("web", 100)]), SettingSource::default());
        let find = |age| active_peer(&all, &settings, Duration::from_secs(period), at(100 + age));
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
            let settings = SettingSource::default();
            let is_active =
                |age: i64| active_peer(&autoscalers, &settings, PERIOD, at(100 + age)).is_some();
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
        assert_eq!(active_peer(&autoscalers, &SettingSource::default(), PERIOD, at(110)), None);
    }
}
