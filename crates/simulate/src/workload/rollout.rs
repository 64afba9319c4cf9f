//! Rollouts of Deployments: the next replicas of each `ReplicaSet`.

use serde_json::Value;

use super::{model::Workload, number};

/// The limits of a rolling update: extra pods and unavailable pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutBounds {
    /// Pods above the desired replicas.
    pub surge: u32,
    /// Available pods below the desired replicas.
    pub unavailable: u32,
}

/// The state of a `ReplicaSet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionState {
    /// Its `spec.replicas`.
    pub replicas: u32,
    /// Available pods.
    pub available: u32,
}

impl RevisionState {
    /// The state of the owner with this UID and `replicas`.
    pub fn for_owner(
        workload: &Workload,
        uid: &str,
        replicas: u32,
        now: f64,
        min_ready: f64,
    ) -> Self {
        let owned = workload.pods.values().filter(|pod| pod.owner_uid == uid);
        let available = owned.filter(|pod| pod.lifecycle.is_available(now, min_ready)).count();
        Self { replicas, available: number::count(available) }
    }
}

/// The next replicas of the new `ReplicaSet` and of the old ones, oldest first, by the strategy of
/// a Deployment. `is_old` selects the owners of the old pods.
pub fn next_replicas(
    workload: &Workload,
    desired: u32,
    strategy: &Value,
    new: RevisionState,
    old: &[RevisionState],
    is_old: impl Fn(&str) -> bool,
) -> (u32, Vec<u32>) {
    if is_recreate(strategy) {
        let remaining = workload.pods.values().filter(|pod| is_old(&pod.owner_uid)).count();
        return recreate(desired, number::count(remaining), old);
    }
    rolling_update(desired, RolloutBounds::from_strategy(strategy, desired), new, old)
}

/// The next replicas of the new `ReplicaSet` and of the old ones, oldest first, while the
/// Deployment is paused. Like the Deployment controller (`scale`), scales the only `ReplicaSet`
/// with replicas, and otherwise keeps the split of an unfinished rollout. The controller
/// distributes a scaling in proportion. Here, only the new `ReplicaSet` is scaled, and the old ones
/// shrink only if they exceed the limit without it.
pub fn next_replicas_while_paused(
    desired: u32,
    strategy: &Value,
    new: RevisionState,
    old: &[RevisionState],
) -> (u32, Vec<u32>) {
    let unchanged: Vec<u32> = old.iter().map(|one| one.replicas).collect();
    let active = unchanged.iter().filter(|replicas| **replicas > 0).count();
    if active == 0 {
        return (desired, unchanged);
    }
    if new.replicas == 0 && active == 1 {
        let scale = |replicas: &u32| if *replicas > 0 { desired } else { 0 };
        return (0, unchanged.iter().map(scale).collect());
    }
    if new.replicas == desired && new.available == desired {
        return (desired, vec![0; old.len()]);
    }
    if is_recreate(strategy) {
        return (new.replicas, unchanged);
    }
    let surge = RolloutBounds::from_strategy(strategy, desired).surge;
    let max_total = if desired == 0 { 0 } else { desired.saturating_add(surge) };
    let old_total = unchanged.iter().copied().fold(0, u32::saturating_add);
    let (reduced, _) = reduce_each(&unchanged, old_total.saturating_sub(max_total), |_| u32::MAX);
    (max_total.saturating_sub(old_total), reduced)
}

fn is_recreate(strategy: &Value) -> bool {
    strategy.get("type").is_some_and(|kind| kind == "Recreate")
}

impl RolloutBounds {
    /// Reads the bounds of a strategy, as numbers or as percentages of the replicas. A missing,
    /// `null` or invalid bound is 25 %. The surge is rounded up, unavailable pods are rounded down.
    /// If both are 0, one pod may be unavailable.
    pub fn from_strategy(strategy: &Value, replicas: u32) -> Self {
        let amount = |name| {
            let value = strategy.pointer(&format!("/rollingUpdate/{name}"));
            let text = value.and_then(Value::as_str);
            let percent = text.and_then(|text| text.trim_end_matches('%').parse::<f64>().ok());
            let of_replicas = || f64::from(replicas) * percent.unwrap_or(25.0) / 100.0;
            value.and_then(Value::as_f64).unwrap_or_else(of_replicas)
        };
        let surge = number::ceil(amount("maxSurge"));
        let unavailable = number::ceil(amount("maxUnavailable").floor());
        Self { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
    }
}

/// The next replicas of the new `ReplicaSet` and of the old ones, oldest first. Like the Deployment
/// controller, scales either the new one (`reconcileNewReplicaSet`) or the old ones
/// (`reconcileOldReplicaSets`).
fn rolling_update(
    desired: u32,
    bounds: RolloutBounds,
    new: RevisionState,
    old: &[RevisionState],
) -> (u32, Vec<u32>) {
    let old_total: u32 = old.iter().map(|one| one.replicas).sum();
    let total = new.replicas + old_total;
    let max_total = desired.saturating_add(bounds.surge);
    let next = if new.replicas >= desired {
        desired
    } else {
        desired.min(new.replicas + max_total.saturating_sub(total))
    };
    let unchanged: Vec<u32> = old.iter().map(|one| one.replicas).collect();
    if next != new.replicas || old_total == 0 {
        return (next, unchanged);
    }
    let min_available = desired.saturating_sub(bounds.unavailable);
    let new_unavailable = new.replicas.saturating_sub(new.available);
    let spare = total.saturating_sub(min_available).saturating_sub(new_unavailable);
    // Unavailable pods go first, because removing them doesn't reduce the availability.
    let (cleaned, spare) = reduce_each(&unchanged, spare, |index| {
        old.get(index).map_or(0, |one| one.replicas.saturating_sub(one.available))
    });
    let available: u32 = new.available + old.iter().map(|one| one.available).sum::<u32>();
    let spare = spare.min(available.saturating_sub(min_available));
    let (result, _) =
        reduce_each(&cleaned, spare, |index| cleaned.get(index).copied().unwrap_or_default());
    (next, result)
}

/// Reduces each number by up to its limit, and all together by up to `spare`. Also returns the rest
/// of `spare`.
fn reduce_each(from: &[u32], mut spare: u32, limit: impl Fn(usize) -> u32) -> (Vec<u32>, u32) {
    let reduce = |(index, replicas): (usize, &u32)| {
        let removed = spare.min(limit(index)).min(*replicas);
        spare -= removed;
        replicas - removed
    };
    let result = from.iter().enumerate().map(reduce).collect();
    (result, spare)
}

/// The next replicas for the strategy `Recreate`: new pods follow when the old ones are gone.
fn recreate(desired: u32, old_pods: u32, old: &[RevisionState]) -> (u32, Vec<u32>) {
    let new = if old_pods == 0 { desired } else { 0 };
    (new, vec![0; old.len()])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{
        RevisionState, RolloutBounds, next_replicas_while_paused, recreate, rolling_update,
    };

    #[rstest]
    #[case::default(json!({}), 10, 3, 2)]
    #[case::null(json!({ "maxSurge": null, "maxUnavailable": null }), 10, 3, 2)]
    #[case::percent(json!({ "maxSurge": "30%", "maxUnavailable": "30%" }), 9, 3, 2)]
    #[case::absolute(json!({ "maxSurge": 2, "maxUnavailable": 0 }), 10, 2, 0)]
    #[case::never_both_zero(json!({ "maxSurge": 0, "maxUnavailable": "10%" }), 5, 0, 1)]
    fn strategy_is_parsed(
        #[case] update: Value,
        #[case] replicas: u32,
        #[case] surge: u32,
        #[case] unavailable: u32,
    ) {
        let bounds = RolloutBounds::from_strategy(&json!({ "rollingUpdate": update }), replicas);
        assert_eq!(bounds, RolloutBounds { surge, unavailable });
    }

    #[rstest]
    #[case::no_rollout(10, (8, 8), &[0], (10, vec![0]))]
    #[case::not_started(10, (0, 0), &[0, 8], (0, vec![0, 10]))]
    #[case::unchanged(10, (5, 5), &[8], (5, vec![8]))]
    #[case::scaled_up(12, (5, 5), &[8], (7, vec![8]))]
    #[case::scaled_down(8, (5, 5), &[8], (2, vec![8]))]
    #[case::scaled_below_the_old(4, (5, 5), &[2, 6], (0, vec![0, 5]))]
    #[case::scaled_to_zero(0, (5, 5), &[8], (0, vec![0]))]
    #[case::new_one_is_unavailable(10, (10, 9), &[3], (10, vec![3]))]
    #[case::new_one_is_available(10, (10, 10), &[3], (10, vec![0]))]
    fn paused_rollout_stays_within_its_surge(
        #[case] desired: u32,
        #[case] new: (u32, u32),
        #[case] old: &[u32],
        #[case] expected: (u32, Vec<u32>),
    ) {
        let state = |(replicas, available)| RevisionState { replicas, available };
        let old: Vec<_> = old.iter().map(|replicas| state((*replicas, *replicas))).collect();
        assert_eq!(next_replicas_while_paused(desired, &Value::Null, state(new), &old), expected);
    }

    /// Runs rollouts in which pods become available in random order.
    #[test]
    fn rolling_update_stays_within_its_bounds() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let desired = rng.u32(1..20);
            let surge = rng.u32(0..5);
            let bounds =
                RolloutBounds { surge, unavailable: rng.u32(if surge == 0 { 1..5 } else { 0..5 }) };
            roll(desired, bounds, &mut rng);
        }
    }

    fn roll(desired: u32, bounds: RolloutBounds, rng: &mut fastrand::Rng) {
        let first = rng.u32(0..=desired);
        let at = |replicas| RevisionState { replicas, available: replicas };
        let mut old = vec![at(first), at(desired - first)];
        let mut new = RevisionState::default();
        for _ in 0..1000 {
            let (next, targets) = rolling_update(desired, bounds, new, &old);
            for (one, target) in old.iter_mut().zip(targets) {
                // A ReplicaSet deletes unavailable pods first.
                *one = RevisionState { replicas: target, available: one.available.min(target) };
            }
            new.replicas = next;
            let total = new.replicas + old.iter().map(|one| one.replicas).sum::<u32>();
            let available = new.available + old.iter().map(|one| one.available).sum::<u32>();
            assert!(total <= desired + bounds.surge, "{desired} {bounds:?} {new:?} {old:?}");
            assert!(
                available + bounds.unavailable >= desired,
                "{desired} {bounds:?} {new:?} {old:?}"
            );
            if new == at(desired) && total == desired {
                return;
            }
            new.available += rng.u32(0..=new.replicas - new.available);
        }
        panic!("{desired} {bounds:?} does not end: {new:?} {old:?}");
    }

    #[test]
    fn unavailable_old_pods_are_replaced_first() {
        let bounds = RolloutBounds { surge: 1, unavailable: 0 };
        let (new, old) = (
            RevisionState { replicas: 1, available: 0 },
            RevisionState { replicas: 4, available: 3 },
        );
        // The unavailable old pod stays until the new pod is available.
        assert_eq!(rolling_update(4, bounds, new, &[old]), (1, vec![4]));
        let new = RevisionState { available: 1, ..new };
        assert_eq!(rolling_update(4, bounds, new, &[old]), (1, vec![3]));
    }

    #[test]
    fn recreate_waits_until_old_pods_are_gone() {
        let old = [RevisionState { replicas: 3, available: 3 }];
        assert_eq!(recreate(3, 3, &old), (0, vec![0]));
        assert_eq!(recreate(3, 0, &old), (3, vec![0]));
    }
}
