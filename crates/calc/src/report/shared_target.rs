//! Autoscalers of one target, and those whose bounds exclude each other.

use std::{collections::BTreeMap, fmt::Display};

use jiff::Timestamp;

use super::{inputs::Inputs, phrases::names};
use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscaler},
    settings::{Bounds, Settings},
};

/// The effect of autoscalers of one target whose bounds exclude each other. `target` is the
/// target's kind and name. A reconcile applies the bounds before it checks whether other
/// autoscalers select the pods, so the check doesn't prevent the scaling.
pub fn bounds_conflict_effect(target: &str, other_count: usize) -> String {
    let all = if other_count == 1 { "both" } else { "all" };
    format!(
        "{all} scale {target} to their own bounds, up and down, for as long as {all} exist with \
         these bounds"
    )
}

/// The bounds to which a controller scales the target, also if other autoscalers have the same
/// target. `None` if no controller does: none has stored a status, or autoscaling is off, paused or
/// in dry run.
pub fn enforced_bounds(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
    now: Timestamp,
) -> Option<Bounds> {
    let active = hpa.status.condition(&ConditionType::ScalingActive);
    let is_off = active.is_some_and(|active| active.reason == ConditionReason::ScalingDisabled);
    (!hpa.status.conditions.is_empty() && !is_off && settings.may_scale())
        .then(|| settings.bounds_at(&hpa.spec, now))
}

/// The conflict of an autoscaler with other autoscalers of its target, as a clause that follows its
/// name. `None` if no bounds of the others exclude `own`. `others` are their names and bounds. All
/// bounds are [`enforced_bounds`].
pub fn describe_bounds_conflict<N: Display>(
    hpa: &HorizontalPodAutoscaler,
    own: Option<Bounds>,
    others: impl IntoIterator<Item = (N, Option<Bounds>)>,
) -> Option<String> {
    let own = own?;
    let excluded = others.into_iter().filter_map(|(name, bounds)| {
        let Bounds { min_replicas: min, max_replicas: max } =
            bounds.filter(|bounds| bounds.exclude(own))?;
        Some(format!("{name} ({min} to {max})"))
    });
    let excluded: Vec<String> = excluded.collect();
    let target = &hpa.spec.scale_target_ref;
    let target = format!("{} {}", target.kind, target.name);
    (!excluded.is_empty()).then(|| {
        format!(
            "conflicts by its bounds, {own}, with {}: {}",
            names(&excluded),
            bounds_conflict_effect(&target, excluded.len())
        )
    })
}

/// Identifies the target of an autoscaler. Versions of a kind's API have the same objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetKey {
    namespace: String,
    group: String,
    kind: String,
    name: String,
}

impl TargetKey {
    /// The target of this autoscaler.
    pub fn new(hpa: &HorizontalPodAutoscaler) -> Self {
        let target = &hpa.spec.scale_target_ref;
        Self {
            namespace: hpa.metadata.namespace.clone(),
            group: target.group().to_owned(),
            kind: target.kind.clone(),
            name: target.name.clone(),
        }
    }
}

/// The autoscalers of each target, by name, with their [`enforced_bounds`]. Reports need nothing
/// else to describe the other autoscalers of a target.
#[derive(Clone, Debug, Default)]
pub struct TargetIndex<N> {
    by_target: BTreeMap<TargetKey, BTreeMap<N, Option<Bounds>>>,
}

impl<N: Ord + Display> TargetIndex<N> {
    /// Adds an autoscaler, or replaces its bounds. Returns whether this is a change.
    pub fn insert(&mut self, target: TargetKey, name: N, bounds: Option<Bounds>) -> bool {
        self.by_target.entry(target).or_default().insert(name, bounds) != Some(bounds)
    }

    /// Removes an autoscaler from its target.
    pub fn remove(&mut self, target: &TargetKey, name: &N) {
        if let Some(of_target) = self.by_target.get_mut(target) {
            of_target.remove(name);
            if of_target.is_empty() {
                self.by_target.remove(target);
            }
        }
    }

    /// The names of the autoscalers of a target.
    pub fn names(&self, target: &TargetKey) -> impl Iterator<Item = &N> {
        self.by_target.get(target).into_iter().flat_map(BTreeMap::keys)
    }

    /// The names of the other autoscalers of an autoscaler's target, and the conflict with them
    /// ([`describe_bounds_conflict`]).
    pub fn others(&self, hpa: &HorizontalPodAutoscaler, name: &N) -> (Vec<String>, Option<String>) {
        let of_target = self.by_target.get(&TargetKey::new(hpa));
        let own = of_target.and_then(|all| all.get(name)).copied().flatten();
        let others = || of_target.into_iter().flatten().filter(move |(other, _)| *other != name);
        let names = others().map(|(other, _)| other.to_string()).collect();
        let bounds = others().map(|(other, bounds)| (other, *bounds));
        (names, describe_bounds_conflict(hpa, own, bounds))
    }
}

/// The conflict with other autoscalers of the target whose bounds exclude those of this one. It
/// matters more than the next decision, which another autoscaler reverses.
pub(super) fn bounds_conflict(inputs: &Inputs) -> Option<&str> {
    inputs.selected.bounds_conflict.as_deref().filter(|_| inputs.scale.is_ok())
}
