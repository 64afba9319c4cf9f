//! Sentences about a controller that makes no decisions.

use std::collections::BTreeMap;

use hpa_calc::explain::counted;
use hpa_controller::{
    HpaKey,
    debug::{AutoscalerItem, ControllerStatus},
};
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::{SignedDuration, Timestamp};

use crate::{
    debug_client::{LeaseKey, format_minutes},
    liveness::{Idle, Leases, group_by_finding},
};

/// A lease without a holder is reported after this time, because a rollout releases it too.
const MAX_LEADER_CHANGE: SignedDuration = SignedDuration::from_secs(10);

/// An autoscaler on which no controller acts.
pub(super) struct IdleStatus<'a> {
    pub(super) key: &'a HpaKey,
    pub(super) idle: Idle,
    /// The lease that was released or deleted, and the time since that was first seen.
    released: Option<(&'a LeaseKey, SignedDuration)>,
}

/// Finds the autoscalers on which no controller acts.
///
/// `writers` has the writer of each autoscaler's status. For each lease of hpa-rs that is missing
/// or has no holder, `released` has the time at which that was first seen.
pub(super) fn find_idle<'a>(
    leases: &'a Leases<'_>,
    writers: &'a [AutoscalerStatusWriter],
    released: &BTreeMap<LeaseKey, Timestamp>,
) -> Vec<IdleStatus<'a>> {
    let found = writers.iter().filter_map(|AutoscalerStatusWriter { key, manager, .. }| {
        let idle = leases.idle(key.api, &key.namespace, manager)?;
        let lease = leases.lease_of(manager).map_or(&leases.lease.name, |(name, _)| name);
        // A lease that was not found was probably never held.
        let since = released.get(lease).filter(|_| idle.search.is_none());
        let released = since.map(|since| (lease, leases.now.duration_since(*since)));
        let is_rollout = released.is_some_and(|(_, age)| age <= MAX_LEADER_CHANGE);
        (!is_rollout).then_some(IdleStatus { key, idle, released })
    });
    found.collect()
}

/// A sentence for each cause that no controller acts on autoscalers, with their number.
pub(super) fn describe_idle(found: &[IdleStatus<'_>]) -> Option<String> {
    let causes = group_by_finding(found.iter().map(|one| (one.idle.clone(), one.key)));
    let causes = causes
        .into_iter()
        .rev()
        .map(|(idle, keys)| idle.sentence(&counted(keys.len(), "autoscaler")) + ".");
    let ages: BTreeMap<_, _> = found.iter().filter_map(|one| one.released).collect();
    let ages = ages.into_iter().filter(|(_, age)| age.as_mins() > 0).map(|(lease, age)| {
        let age = format_minutes(age);
        format!("No instance has held the lease {lease} for at least {age}.")
    });
    let sentences: Vec<_> = causes.chain(ages).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// A sentence about a leader, if the last reconcile of an autoscaler is longer ago than `limit` and
/// than four sync periods.
pub(super) fn describe_late_decisions(
    status: &ControllerStatus,
    limit: SignedDuration,
) -> Option<String> {
    let oldest = status.oldest_reconcile_seconds?;
    let limit = limit.as_secs_f64().max(4.0 * status.sync_period_seconds);
    if oldest <= limit {
        return None;
    }
    let oldest = format_minutes(bounded_duration(oldest));
    Some(format!(
        "The controller answers, but has made no decision for {oldest} about at least one of the \
         autoscalers that it reconciles, in any namespace."
    ))
}

/// The time since the last decision about an autoscaler, or since the first one was due. `None`
/// unless it is due and the time is longer than `limit`.
pub(super) fn overdue_age(item: &AutoscalerItem, limit: SignedDuration) -> Option<SignedDuration> {
    let lateness = item.next_due_in_seconds.filter(|due| *due < 0.0).map(f64::abs)?;
    let age = bounded_duration(item.last_reconcile_seconds_ago.unwrap_or(lateness));
    (age > limit).then_some(age)
}

/// The duration of a number in a response, which may be out of range.
fn bounded_duration(seconds: f64) -> SignedDuration {
    SignedDuration::from_secs_f64(seconds.clamp(0.0, 1e9))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use hpa_controller::{AutoscalerApi, InstanceScope};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::{
        debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, Unavailable},
        liveness::{ControllerLease, KubeControllerManager, NamespaceWriters, ReadLease},
    };

    const LIMIT: SignedDuration = SignedDuration::from_mins(2);

    fn lease(name: LeaseKey, holder: Result<LeaseHolder, Unavailable>) -> ControllerLease {
        ControllerLease {
            name,
            holder,
            searched_namespaces: Vec::new(),
            others: Vec::new(),
            local: Vec::new(),
            may_answer_for_all: true,
        }
    }

    fn leases<'a>(
        lease: &'a ControllerLease,
        built_in: &'a KubeControllerManager,
        now: Timestamp,
    ) -> Leases<'a> {
        static NO_WRITERS: LazyLock<NamespaceWriters> = LazyLock::new(NamespaceWriters::default);
        Leases { lease, writers: &NO_WRITERS, built_in, now }
    }

    /// An instance that holds a lease at `now`.
    fn holder(lease: LeaseKey, now: Timestamp) -> LeaseHolder {
        LeaseHolder {
            lease,
            requested_at: now,
            identity: "hpa-1_x".to_owned(),
            acquired: None,
            renewed: Some(now),
            has_unreadable_time: false,
            clock_lead: SignedDuration::ZERO,
            duration: SignedDuration::from_secs(15),
            transitions: 0,
            scope: None,
        }
    }

    fn describe_leases(
        leases: &Leases<'_>,
        writers: &[AutoscalerStatusWriter],
        released: &BTreeMap<LeaseKey, Timestamp>,
    ) -> Option<String> {
        describe_idle(&find_idle(leases, writers, released))
    }

    #[test]
    fn lease_without_a_holder_is_reported_after_the_limit() {
        let name = LeaseKey { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let released = Err(Unavailable::NotHeld { lease: name.clone(), released: None });
        let holder = Err(Unavailable::NoLease(LeaseKey::built_in()));
        let built_in = KubeControllerManager { holder, flags: None, last_write: None };
        let lease = lease(name.clone(), released);
        let leases = leases(&lease, &built_in, now);
        let sentences = |age| {
            let since = BTreeMap::from([(name.clone(), now - SignedDuration::from_secs(age))]);
            describe_leases(&leases, &[writer("hpa-controller:scaling/hpa")], &since)
        };
        assert_eq!(sentences(10), None, "a rollout");
        let lost = "No controller with a known lease acts on 1 autoscaler: no instance holds the \
                    lease scaling/hpa.";
        assert_eq!(sentences(15).as_deref(), Some(lost));
        let age = " No instance has held the lease scaling/hpa for at least 3m.";
        assert_eq!(sentences(200), Some(lost.to_owned() + age));
    }

    #[rstest]
    #[case::recent(Some(20.0), Some(-5.0), None)]
    #[case::long_period(Some(500.0), Some(100.0), None)]
    #[case::stuck(Some(500.0), Some(-485.0), Some(500))]
    #[case::never_decided(None, Some(-300.0), Some(300))]
    #[case::standby(Some(500.0), None, None)]
    #[case::forged(Some(-1e300), Some(-1e300), None)]
    fn autoscaler_is_overdue_if_it_is_due_and_its_decision_is_old(
        #[case] last_reconcile_seconds_ago: Option<f64>,
        #[case] next_due_in_seconds: Option<f64>,
        #[case] expected: Option<i64>,
    ) {
        let item = json!({
            "api": "custom", "namespace": "shop", "name": "web", "uid": "u", "isFailing": false,
            "lastReconcileSecondsAgo": last_reconcile_seconds_ago,
            "nextDueInSeconds": next_due_in_seconds,
        });
        let item = serde_json::from_value(item).expect("an item");
        assert_eq!(overdue_age(&item, LIMIT), expected.map(SignedDuration::from_secs));
    }

    fn writer(manager: &str) -> AutoscalerStatusWriter {
        let key = HpaKey::new("shop", "web");
        AutoscalerStatusWriter {
            key,
            manager: manager.to_owned(),
            at: None,
            overwritten: Vec::new(),
            dry_run: false,
        }
    }

    /// The flags of kube-controller-manager can't be read, as on managed clusters.
    #[test]
    fn lease_without_a_holder_is_not_reported_while_the_built_in_controller_writes() {
        let name = LeaseKey { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let seconds_ago = |seconds| now - SignedDuration::from_secs(seconds);
        let built_in = |last_write| KubeControllerManager {
            holder: Ok(holder(LeaseKey::built_in(), now)),
            flags: None,
            last_write: Some(last_write),
        };
        let lease =
            lease(name.clone(), Err(Unavailable::NotHeld { lease: name.clone(), released: None }));
        let is_reported = |age, api| {
            let last_write = seconds_ago(age);
            let built_in = built_in(last_write);
            let at = Some(last_write);
            let write = AutoscalerStatusWriter { at, ..writer(KUBE_CONTROLLER_MANAGER) };
            let writers = NamespaceWriters::new(&[write]);
            let leases = Leases { writers: &writers, ..leases(&lease, &built_in, now) };
            let key = HpaKey::for_api(api, "shop", "web");
            let writer = AutoscalerStatusWriter { key, ..writer("hpa-controller:scaling/hpa") };
            let released = BTreeMap::from([(name.clone(), seconds_ago(60))]);
            describe_leases(&leases, &[writer], &released).is_some()
        };
        assert!(!is_reported(20, AutoscalerApi::Core));
        assert!(is_reported(200, AutoscalerApi::Core));
        assert!(is_reported(20, AutoscalerApi::Custom), "it doesn't handle this API");
    }

    /// hpa-rs was installed again under another name. The statuses of steady autoscalers still name
    /// the lease of the first installation.
    #[test]
    fn held_lease_of_another_installation_is_named() {
        let [old, new] = ["one", "two"]
            .map(|name| LeaseKey { namespace: "scaling".to_owned(), name: name.to_owned() });
        let now = Timestamp::from_second(1_000_000).unwrap();
        let held = Ok(holder(new.clone(), now));
        let others = vec![ReadLease {
            name: old.clone(),
            holder: Err(Unavailable::NotHeld { lease: old.clone(), released: None }),
        }];
        let holder = Err(Unavailable::NoLease(LeaseKey::built_in()));
        let built_in = KubeControllerManager { holder, flags: None, last_write: None };
        let mut lease = ControllerLease { others, ..lease(new, held) };
        let writers =
            ["one", "one", "two"].map(|name| writer(&format!("hpa-controller:scaling/{name}")));
        let released = BTreeMap::from([(old, now - SignedDuration::from_secs(15))]);
        let scope = InstanceScope {
            holder: "hpa-1_x".to_owned(),
            apis: vec![AutoscalerApi::Core],
            namespaces: vec!["shop".to_owned()],
        };
        lease.holder.as_mut().unwrap().scope = Some(scope);
        let published = leases(&lease, &built_in, now);
        assert_eq!(describe_leases(&published, &writers, &released), None, "it handles shop");
        let scope = &mut lease.holder.as_mut().unwrap().scope;
        scope.as_mut().unwrap().namespaces = vec!["blog".to_owned()];
        let published = leases(&lease, &built_in, now);
        let sentence = describe_leases(&published, &writers[2..], &released).unwrap();
        let expected = "No controller with a known lease acts on 1 autoscaler: an instance with \
                        the lease scaling/two handles only other autoscalers (annotation of the \
                        lease).";
        assert_eq!(sentence, expected);
        lease.holder.as_mut().unwrap().scope = None;
        let leases = leases(&lease, &built_in, now);
        let sentence = describe_leases(&leases, &writers, &released).unwrap();
        let expected = "Maybe no controller acts on 2 autoscalers: no instance holds the lease \
                        scaling/one, and whether an instance with the lease scaling/two acts \
                        instead is unknown.";
        assert_eq!(sentence, expected);

        let namespaces = NamespaceWriters::new(&writers);
        let leases = Leases { writers: &namespaces, ..leases };
        assert_eq!(describe_leases(&leases, &writers, &released), None, "it handles the namespace");
    }

    /// The count doesn't depend on which of the controllers stored the status.
    #[test]
    fn autoscalers_of_two_stopped_controllers_are_counted_together() {
        let name = LeaseKey { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let renewed = Some(now - SignedDuration::from_secs(45));
        let dead = Ok(LeaseHolder { renewed, ..holder(LeaseKey::built_in(), now) });
        let built_in = KubeControllerManager { holder: dead, flags: None, last_write: None };
        let writers = [
            "hpa-controller:scaling/hpa",
            "hpa-controller:a/hpa",
            "kube-controller-manager",
            "kube-controller-manager",
        ]
        .map(writer);
        let holder = Err(Unavailable::NotHeld { lease: name.clone(), released: None });
        let lease = lease(name.clone(), holder);
        let leases = leases(&lease, &built_in, now);
        let released = BTreeMap::from([(name.clone(), now - SignedDuration::from_secs(15))]);
        assert_eq!(
            describe_leases(&leases, &writers, &released).as_deref(),
            Some(
                "No controller with a known lease acts on 3 autoscalers: no instance holds the \
                 lease scaling/hpa, and no controller has renewed the lease \
                 kube-system/kube-controller-manager for 45s."
            )
        );
        assert_eq!(describe_leases(&leases, &[], &released), None);
    }
}
