//! The autoscalers of each target, and the conflicts of their bounds. A group is examined once, so
//! the work for an autoscaler doesn't grow with their number.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use hpa_calc::settings::Bounds;
use hpa_controller::AutoscalerApi;
use jiff::Timestamp;

use super::{rule::Subject, target::MAX_NAMED_OBJECTS};
use crate::{
    lint::object::{Reference, autoscaler_api, namespace, qualified_name},
    manifests::Manifest,
};

/// The maximum number of times of a week at which the bounds of a target's autoscalers are
/// compared.
const MAX_COMPARED_TIMES: usize = 300;

/// The valid autoscalers of all targets that have several, by namespace and target.
pub(super) struct TargetGroups<'a>(HashMap<(&'a str, Reference), TargetGroup<'a>>);

/// The autoscalers of both APIs with one target.
struct TargetGroup<'a> {
    /// The first two of each API that are paused or in dry run. Without the autoscaler that is
    /// compared, one remains.
    paused: Vec<&'a Manifest>,
    /// By time, each until the next one.
    extremes: Vec<(Timestamp, Extremes<'a>)>,
}

/// The autoscalers whose bounds exclude the most others at one time, with these bounds. One more of
/// each kind than a rule names, because one may be the autoscaler that is compared.
struct Extremes<'a> {
    highest_minimums: Vec<(&'a Manifest, Bounds)>,
    lowest_maximums: Vec<(&'a Manifest, Bounds)>,
}

/// The other autoscalers with an autoscaler's target, in its namespace.
#[derive(Default)]
pub(super) struct OtherAutoscalers<'a> {
    /// Those whose bounds exclude its bounds at a time of a week, with its bounds and theirs. At
    /// most [`MAX_NAMED_OBJECTS`].
    pub(super) conflicting: Vec<(&'a Manifest, Bounds, Bounds)>,
    /// Whether the bounds of any two, or of it and another one, exclude each other.
    pub(super) has_conflict: bool,
    /// Whether it or another one of its API is paused or in dry run.
    pub(super) has_paused: bool,
}

impl<'a> TargetGroups<'a> {
    /// Autoscalers with equal API, namespace and name, such as those of several environments, count
    /// as one: the first.
    pub(super) fn new(subjects: &[Option<Subject<'a>>]) -> Self {
        let mut members = HashMap::<_, BTreeMap<_, &Subject<'a>>>::new();
        for subject in subjects.iter().flatten() {
            let of_target = members.entry(key(subject)).or_default();
            of_target.entry(identity(subject.manifest)).or_insert(subject);
        }
        members.retain(|_, of_target| of_target.len() > 1);
        let groups = members.into_iter().map(|(key, of_target)| {
            let of_target: Vec<&Subject<'a>> = of_target.into_values().collect();
            (key, TargetGroup::new(&of_target))
        });
        Self(groups.collect())
    }

    pub(super) fn others_of(&self, subject: &Subject<'a>) -> OtherAutoscalers<'a> {
        let has_paused = !subject.may_scale();
        let mut others = OtherAutoscalers { has_paused, ..OtherAutoscalers::default() };
        if let Some(group) = self.0.get(&key(subject)) {
            group.compare(subject, &mut others);
        }
        others
    }
}

impl<'a> TargetGroup<'a> {
    fn new(members: &[&Subject<'a>]) -> Self {
        let paused_of = move |api: AutoscalerApi| {
            let is_paused =
                move |one: &&&Subject<'a>| !one.may_scale() && autoscaler_api(one.manifest) == api;
            members.iter().filter(is_paused).take(2).map(|one| one.manifest)
        };
        let weeks: Vec<_> =
            members.iter().map(|one| (one.manifest, one.enforced_bounds())).collect();
        let times = weeks.iter().flat_map(|(_, week)| week).map(|(at, _)| *at);
        let times: BTreeSet<Timestamp> = times.collect();
        let extremes = times.into_iter().take(MAX_COMPARED_TIMES).map(|at| {
            let bounds = weeks.iter().filter_map(|(one, week)| Some((*one, *value_at(week, at)?)));
            (at, Extremes::of(bounds.collect()))
        });
        Self {
            paused: AutoscalerApi::ALL.into_iter().flat_map(paused_of).collect(),
            extremes: extremes.collect(),
        }
    }

    fn compare(&self, subject: &Subject<'a>, others: &mut OtherAutoscalers<'a>) {
        let own_identity = identity(subject.manifest);
        let is_other = |one: &Manifest| identity(one) != own_identity;
        let is_same_api = |one: &Manifest| autoscaler_api(one) == own_identity.0;
        others.has_paused |= self.paused.iter().any(|one| is_same_api(one) && is_other(one));
        let week = subject.enforced_bounds();
        let is_compared = |at: &Timestamp| {
            self.extremes.len() < MAX_COMPARED_TIMES
                || self.extremes.last().is_some_and(|(last, _)| at <= last)
        };
        // The autoscaler may be another manifest than the one of its name in the group.
        let own_times = week.iter().map(|(at, _)| *at).filter(is_compared).take(MAX_COMPARED_TIMES);
        let times: BTreeSet<Timestamp> =
            own_times.chain(self.extremes.iter().map(|(at, _)| *at)).collect();
        let of_others = |bounds: &[(&'a Manifest, Bounds)]| -> Vec<(&'a Manifest, Bounds)> {
            bounds.iter().filter(|(one, _)| is_other(one)).copied().collect()
        };
        for at in times {
            let Some(extremes) = value_at(&self.extremes, at) else { continue };
            let highest = of_others(&extremes.highest_minimums);
            let lowest = of_others(&extremes.lowest_maximums);
            if let (Some((_, highest)), Some((_, lowest))) = (highest.first(), lowest.first()) {
                others.has_conflict |= highest.exclude(*lowest);
            }
            if let Some(own) = value_at(&week, at) {
                let excluded = highest.into_iter().chain(lowest);
                others.add_conflicts(*own, excluded.filter(|(_, bounds)| bounds.exclude(*own)));
            }
        }
    }
}

impl<'a> Extremes<'a> {
    fn of(mut bounds: Vec<(&'a Manifest, Bounds)>) -> Self {
        let first = |bounds: &[(&'a Manifest, Bounds)]| -> Vec<(&'a Manifest, Bounds)> {
            bounds.iter().take(MAX_NAMED_OBJECTS + 1).copied().collect()
        };
        bounds.sort_by_key(|(_, bounds)| Reverse(bounds.min_replicas));
        let highest_minimums = first(&bounds);
        bounds.sort_by_key(|(_, bounds)| bounds.max_replicas);
        Self { highest_minimums, lowest_maximums: first(&bounds) }
    }
}

impl<'a> OtherAutoscalers<'a> {
    fn add_conflicts(
        &mut self,
        own: Bounds,
        excluded: impl Iterator<Item = (&'a Manifest, Bounds)>,
    ) {
        for (other, bounds) in excluded {
            self.has_conflict = true;
            if self.conflicting.len() < MAX_NAMED_OBJECTS && !self.is_conflicting(other) {
                self.conflicting.push((other, own, bounds));
            }
        }
    }

    pub(super) fn is_conflicting(&self, autoscaler: &Manifest) -> bool {
        self.conflicting.iter().any(|(one, ..)| identity(one) == identity(autoscaler))
    }
}

/// Manifests with the same identity are of the same autoscaler, as those of several environments.
pub(super) fn identity(autoscaler: &Manifest) -> (AutoscalerApi, String) {
    (autoscaler_api(autoscaler), qualified_name(autoscaler))
}

fn key<'a>(subject: &Subject<'a>) -> (&'a str, Reference) {
    (namespace(subject.manifest), subject.target_reference())
}

/// The value at a time, from the values with the times of their starts.
fn value_at<T>(values: &[(Timestamp, T)], time: Timestamp) -> Option<&T> {
    let next = values.partition_point(|(start, _)| *start <= time);
    values.get(next.checked_sub(1)?).map(|(_, value)| value)
}
