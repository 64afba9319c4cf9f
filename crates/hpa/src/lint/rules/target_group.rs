//! The autoscalers of each target, and the conflicts of their bounds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hpa_calc::settings::Bounds;
use hpa_controller::AutoscalerApi;
use jiff::Timestamp;

use super::{rule::Subject, target::MAX_NAMED_OBJECTS};
use crate::{
    lint::object::{Reference, autoscaler_api, namespace, qualified_name},
    manifests::Manifest,
};

/// The maximum number of a target's autoscalers that are compared with an autoscaler. The work for
/// an autoscaler must not grow with their number.
const MAX_COMPARED: usize = 30;
/// The maximum number of times of a week at which the bounds of two autoscalers are compared.
const MAX_COMPARED_TIMES: usize = 300;

/// The valid autoscalers of all targets that have several, by namespace and target.
pub(super) struct TargetGroups<'a>(HashMap<(&'a str, Reference), TargetGroup<'a>>);

/// The first autoscalers of both APIs with one target.
struct TargetGroup<'a> {
    members: Vec<Member<'a>>,
    /// The pairs of members whose bounds exclude each other at a time of a week.
    conflicts: Vec<[Identity; 2]>,
}

/// An autoscaler of a target.
struct Member<'a> {
    identity: Identity,
    manifest: &'a Manifest,
    is_paused: bool,
    /// The bounds from each time on, see [`Subject::enforced_bounds`].
    week: Vec<(Timestamp, Bounds)>,
}

/// The API and the name. Manifests with the same identity are of the same autoscaler, as those of
/// several environments.
type Identity = (AutoscalerApi, String);

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
    /// Of several manifests with the same identity, only the first counts.
    pub(super) fn new(subjects: &[Option<Subject<'a>>]) -> Self {
        let mut groups = HashMap::<_, BTreeMap<Identity, &Subject<'a>>>::new();
        for subject in subjects.iter().flatten() {
            let of_target = groups.entry(key(subject)).or_default();
            of_target.entry(identity(subject.manifest)).or_insert(subject);
        }
        groups.retain(|_, of_target| of_target.len() > 1);
        let groups = groups.into_iter().map(|(key, of_target)| {
            let members = of_target.into_iter().take(MAX_COMPARED);
            let members = members.map(|(identity, subject)| Member::new(identity, subject));
            (key, TargetGroup::new(members.collect()))
        });
        Self(groups.collect())
    }

    pub(super) fn others_of(&self, subject: &Subject<'a>) -> OtherAutoscalers<'a> {
        let has_paused = !subject.may_scale();
        let mut others = OtherAutoscalers { has_paused, ..OtherAutoscalers::default() };
        let Some(group) = self.0.get(&key(subject)) else { return others };
        let own = Member::new(identity(subject.manifest), subject);
        for other in group.members.iter().filter(|other| other.identity != own.identity) {
            others.has_paused |= other.is_paused && other.identity.0 == own.identity.0;
            if let Some((own_bounds, other_bounds)) = first_conflict(&own.week, &other.week) {
                others.conflicting.push((other.manifest, own_bounds, other_bounds));
            }
        }
        others.has_conflict = !others.conflicting.is_empty()
            || group.conflicts.iter().any(|pair| !pair.contains(&own.identity));
        others.conflicting.truncate(MAX_NAMED_OBJECTS);
        others
    }
}

impl<'a> TargetGroup<'a> {
    fn new(members: Vec<Member<'a>>) -> Self {
        let mut conflicts = Vec::new();
        for (index, one) in members.iter().enumerate() {
            for other in members.iter().take(index) {
                if first_conflict(&one.week, &other.week).is_some() {
                    conflicts.push([one.identity.clone(), other.identity.clone()]);
                }
            }
        }
        Self { members, conflicts }
    }
}

impl<'a> Member<'a> {
    fn new(identity: Identity, subject: &Subject<'a>) -> Self {
        let (manifest, is_paused) = (subject.manifest, !subject.may_scale());
        Self { identity, manifest, is_paused, week: subject.enforced_bounds() }
    }
}

impl OtherAutoscalers<'_> {
    pub(super) fn is_conflicting(&self, autoscaler: &Manifest) -> bool {
        self.conflicting.iter().any(|(one, ..)| identity(one) == identity(autoscaler))
    }
}

pub(super) fn identity(autoscaler: &Manifest) -> Identity {
    (autoscaler_api(autoscaler), qualified_name(autoscaler))
}

fn key<'a>(subject: &Subject<'a>) -> (&'a str, Reference) {
    (namespace(subject.manifest), subject.target_reference())
}

/// The first bounds of two weeks that exclude each other.
fn first_conflict(
    week: &[(Timestamp, Bounds)],
    other: &[(Timestamp, Bounds)],
) -> Option<(Bounds, Bounds)> {
    let times: BTreeSet<Timestamp> = week.iter().chain(other).map(|(at, _)| *at).collect();
    times.into_iter().take(MAX_COMPARED_TIMES).find_map(|at| {
        let (bounds, other_bounds) = (bounds_at(week, at)?, bounds_at(other, at)?);
        bounds.exclude(other_bounds).then_some((bounds, other_bounds))
    })
}

fn bounds_at(week: &[(Timestamp, Bounds)], time: Timestamp) -> Option<Bounds> {
    let next = week.partition_point(|(start, _)| *start <= time);
    week.get(next.checked_sub(1)?).map(|(_, bounds)| *bounds)
}
