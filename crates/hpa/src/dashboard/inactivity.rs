//! Sentences about a controller that makes no decisions.

use std::collections::BTreeMap;

use hpa_calc::explain::counted;
use hpa_controller::debug::{AutoscalerItem, ControllerStatus};
use hpa_dashboard::{AutoscalerStatusWriter, OverdueAutoscaler};
use jiff::{SignedDuration, Timestamp};

use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseName, Unavailable, item_key},
    liveness::{Idle, Leases},
};

const PAGE_MAY_BE_OLD: &str = "The rest of the page may be old.";
/// A lease without a holder is reported after this time, because a rollout releases it too.
const MAX_LEADER_CHANGE: SignedDuration = SignedDuration::from_secs(10);

/// Describes each lease whose controller makes no decisions: no instance holds it, it has expired,
/// or kube-controller-manager's HPA controller is off. Each sentence has the number of statuses
/// that the controller stored.
///
/// `writers` has the writer of each autoscaler's status. For each lease of hpa-rs that is missing
/// or has no holder, `released` has the time at which that was first seen.
pub(super) fn describe_leases(
    leases: &Leases<'_>,
    writers: &[AutoscalerStatusWriter],
    released: &BTreeMap<LeaseName, Timestamp>,
) -> Option<String> {
    let idle = writers.iter().filter_map(|AutoscalerStatusWriter { key, manager, .. }| {
        let idle = leases.idle(key.api, &key.namespace, manager)?;
        Some((manager.as_str(), idle))
    });
    let mut by_manager = BTreeMap::<&str, (Idle, usize)>::new();
    for (manager, idle) in idle {
        by_manager.entry(manager).or_insert((idle, 0)).1 += 1;
    }
    let now = leases.now;
    let sentences = by_manager.into_iter().filter_map(|(manager, (idle, status_count))| {
        let built_in = LeaseName::built_in();
        let (name, holder) = match manager {
            KUBE_CONTROLLER_MANAGER => (&built_in, &leases.built_in.holder),
            _ => leases.lease_of(manager)?,
        };
        let addition = idle.addition();
        match holder {
            Ok(holder) if holder.is_expired(now) => {
                Some(describe_expired(holder, status_count, &addition, now))
            }
            Err(_) if manager != KUBE_CONTROLLER_MANAGER => {
                let since = released.get(name)?;
                describe_released(name, status_count, &addition, *since, now)
            }
            // Its holder works, but handles other autoscalers.
            Ok(_) if manager != KUBE_CONTROLLER_MANAGER => {
                let sentence = idle.sentence(&counted(status_count, "autoscaler"));
                Some(format!("{sentence}. {PAGE_MAY_BE_OLD}"))
            }
            Ok(_) | Err(_) => Some(describe_cause(name, status_count, &idle.reason())),
        }
    });
    let sentences: Vec<_> = sentences.collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// A sentence about a lease that has expired. `addition` is the end of the cause.
fn describe_expired(
    holder: &LeaseHolder,
    status_count: usize,
    addition: &str,
    now: Timestamp,
) -> String {
    if holder.has_unreadable_time {
        return format!(
            "Whether a controller makes decisions with the lease {}, whose holder stored the status \
             of {}, is unknown: the time of its last renewal can't be read{addition}. \
             {PAGE_MAY_BE_OLD}",
            holder.lease,
            counted(status_count, "autoscaler")
        );
    }
    let pod = holder.host_name();
    let cause = match holder.renewed.map(|renewed| now.duration_since(renewed)) {
        Some(age) => format!("{pod} has not renewed it for {}{addition}", format_minutes(age)),
        None => format!("{pod} has never renewed it{addition}"),
    };
    describe_cause(&holder.lease, status_count, &cause)
}

/// A sentence about a lease that has had no holder for longer than a change of leaders takes.
/// `addition` is the end of the cause.
fn describe_released(
    lease: &LeaseName,
    status_count: usize,
    addition: &str,
    since: Timestamp,
    now: Timestamp,
) -> Option<String> {
    let age = now.duration_since(since);
    let cause = match age.as_mins() {
        0 => format!("no instance holds it{addition}"),
        _ => format!("no instance has held it for at least {}{addition}", format_minutes(age)),
    };
    (age > MAX_LEADER_CHANGE).then(|| describe_cause(lease, status_count, &cause))
}

fn describe_cause(lease: &LeaseName, status_count: usize, cause: &str) -> String {
    let autoscalers = counted(status_count, "autoscaler");
    format!(
        "No controller makes decisions with the lease {lease}, whose holder stored the status of \
         {autoscalers}: {cause}. {PAGE_MAY_BE_OLD}"
    )
}

/// A sentence about a leader, if the last reconcile of an autoscaler is longer ago than `limit` and
/// than four sync periods.
pub(super) fn describe_status(status: &ControllerStatus, limit: SignedDuration) -> Option<String> {
    let oldest = status.oldest_reconcile_seconds?;
    let limit = limit.as_secs_f64().max(4.0 * status.sync_period_seconds);
    if oldest <= limit {
        return None;
    }
    let oldest = format_minutes(SignedDuration::from_secs_f64(oldest.min(1e9)));
    Some(format!(
        "The controller answers, but has made no decision for {oldest} about at least one of the \
         autoscalers that it reconciles, in any namespace. {PAGE_MAY_BE_OLD}"
    ))
}

/// The autoscaler, if it is due and has had no decision for longer than `limit`.
pub(super) fn overdue(item: &AutoscalerItem, limit: SignedDuration) -> Option<OverdueAutoscaler> {
    let lateness = item.next_due_in_seconds.filter(|due| *due < 0.0).map(f64::abs)?;
    let age =
        SignedDuration::from_secs_f64(item.last_reconcile_seconds_ago.unwrap_or(lateness).min(1e9));
    (age > limit).then(|| OverdueAutoscaler { key: item_key(item), age })
}

/// A sentence about the debug API of `--controller-url`, if it can't be read.
pub(super) fn describe_unreadable_url(url: &str, error: &Unavailable) -> String {
    format!(
        "Whether the controller at {url} makes decisions is unknown: {error}. {PAGE_MAY_BE_OLD}"
    )
}

/// Formats `40s`, `3m` or `2h 5m`. Seconds are left out after the first minute, because each
/// change of a sentence is sent to all pages.
fn format_minutes(age: SignedDuration) -> String {
    let (hours, minutes) = (age.as_hours(), age.as_mins() % 60);
    match (hours, minutes) {
        (0, 0) => format!("{}s", age.as_secs()),
        (0, _) => format!("{minutes}m"),
        _ => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use hpa_controller::{AutoscalerApi, HpaKey, InstanceScope};
    use rstest::rstest;

    use super::*;
    use crate::liveness::{ControllerLease, KubeControllerManager, NamespaceWriters, ReadLease};

    const LIMIT: SignedDuration = SignedDuration::from_mins(2);

    fn lease(name: LeaseName, holder: Result<LeaseHolder, Unavailable>) -> ControllerLease {
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

    #[rstest]
    #[case::just_expired(Some(40), "hpa-1 has not renewed it for 40s.")]
    #[case::dead(Some(200), "hpa-1 has not renewed it for 3m.")]
    #[case::dead_for_hours(Some(7500), "hpa-1 has not renewed it for 2h 5m.")]
    #[case::never_renewed(None, "hpa-1 has never renewed it.")]
    fn expired_lease_is_described(#[case] age: Option<i64>, #[case] expected: &str) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let holder = LeaseHolder {
            lease: LeaseName { namespace: "scaling".to_owned(), name: "hpa".to_owned() },
            identity: "hpa-1_x".to_owned(),
            acquired: None,
            renewed: age.map(|age| now - SignedDuration::from_secs(age)),
            has_unreadable_time: false,
            duration: SignedDuration::from_secs(15),
            transitions: 0,
            scope: None,
        };
        let sentence = describe_expired(&holder, 3, "", now);
        let lease = "No controller makes decisions with the lease scaling/hpa, ";
        assert!(sentence.starts_with(lease), "{sentence}");
        assert!(sentence.contains("the status of 3 autoscalers: "), "{sentence}");
        assert!(sentence.contains(expected), "{sentence}");

        let unreadable = LeaseHolder { renewed: None, has_unreadable_time: true, ..holder };
        let sentence = describe_expired(&unreadable, 3, "", now);
        let unknown = "Whether a controller makes decisions with the lease scaling/hpa, ";
        assert!(sentence.starts_with(unknown), "{sentence}");
        assert!(sentence.contains("the time of its last renewal can't be read. "), "{sentence}");
    }

    #[test]
    fn lease_without_a_holder_is_reported_after_the_limit() {
        let lease = LeaseName { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let sentence =
            |age| describe_released(&lease, 1, "", now - SignedDuration::from_secs(age), now);
        assert_eq!(sentence(10), None, "a rollout");
        assert!(sentence(15).is_some_and(|text| text.contains("no instance holds it. ")));
        let sentence = sentence(200).unwrap();
        assert!(sentence.contains("no instance has held it for at least 3m. "), "{sentence}");
    }

    #[rstest]
    #[case::recent(Some(20.0), Some(-5.0), None)]
    #[case::long_period(Some(500.0), Some(100.0), None)]
    #[case::stuck(Some(500.0), Some(-485.0), Some(500))]
    #[case::never_decided(None, Some(-300.0), Some(300))]
    #[case::standby(Some(500.0), None, None)]
    fn autoscaler_is_overdue_if_it_is_due_and_its_decision_is_old(
        #[case] last_reconcile_seconds_ago: Option<f64>,
        #[case] next_due_in_seconds: Option<f64>,
        #[case] expected: Option<i64>,
    ) {
        let item = AutoscalerItem {
            api: AutoscalerApi::Custom,
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: String::new(),
            is_failing: false,
            status_write_error: None,
            last_reconcile_seconds_ago,
            next_due_in_seconds,
            last: None,
        };
        let key = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
        let age = expected.map(SignedDuration::from_secs);
        assert_eq!(overdue(&item, LIMIT), age.map(|age| OverdueAutoscaler { key, age }));
    }

    fn writer(manager: &str) -> AutoscalerStatusWriter {
        let key = HpaKey::new("shop", "web");
        AutoscalerStatusWriter { key, manager: manager.to_owned(), at: None, built_in_at: None }
    }

    /// Its flags can't be read, as on managed clusters.
    #[test]
    fn lease_without_a_holder_is_not_reported_while_the_built_in_controller_writes() {
        let name = LeaseName { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let seconds_ago = |seconds| now - SignedDuration::from_secs(seconds);
        let built_in = |last_write| KubeControllerManager {
            holder: Ok(LeaseHolder {
                lease: LeaseName::built_in(),
                identity: "cp-1_x".to_owned(),
                acquired: None,
                renewed: Some(seconds_ago(1)),
                has_unreadable_time: false,
                duration: SignedDuration::from_secs(15),
                transitions: 0,
                scope: None,
            }),
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

    /// The statuses of steady autoscalers name the lease of the release before.
    #[test]
    fn held_lease_of_another_release_is_named() {
        let [old, new] = ["one", "two"]
            .map(|name| LeaseName { namespace: "scaling".to_owned(), name: name.to_owned() });
        let now = Timestamp::from_second(1_000_000).unwrap();
        let held = Ok(LeaseHolder {
            lease: new.clone(),
            identity: "hpa-1_x".to_owned(),
            acquired: None,
            renewed: Some(now),
            has_unreadable_time: false,
            duration: SignedDuration::from_secs(15),
            transitions: 0,
            scope: None,
        });
        let others = vec![ReadLease {
            name: old.clone(),
            holder: Err(Unavailable::NotHeld { lease: old.clone(), released: None }),
        }];
        let holder = Err(Unavailable::NoLease(LeaseName::built_in()));
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
        let expected = "Maybe no controller acts on 1 autoscaler: an instance with the lease \
                        scaling/two handles other autoscalers (annotation of the lease). The";
        assert!(sentence.starts_with(expected), "{sentence}");
        lease.holder.as_mut().unwrap().scope = None;
        let leases = leases(&lease, &built_in, now);
        let sentence = describe_leases(&leases, &writers, &released).unwrap();
        let expected = "No controller makes decisions with the lease scaling/one, whose holder \
                        stored the status of 2 autoscalers: no instance holds it, and whether an \
                        instance with the lease scaling/two acts instead is unknown. ";
        assert!(sentence.starts_with(expected), "{sentence}");

        let namespaces = NamespaceWriters::new(&writers);
        let leases = Leases { writers: &namespaces, ..leases };
        assert_eq!(describe_leases(&leases, &writers, &released), None, "it handles the namespace");
    }

    #[test]
    fn statuses_of_each_lease_that_is_not_held_are_counted() {
        let name = LeaseName { namespace: "scaling".to_owned(), name: "hpa".to_owned() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        let dead = Ok(LeaseHolder {
            lease: LeaseName::built_in(),
            identity: "cp-1_x".to_owned(),
            acquired: None,
            renewed: Some(now - SignedDuration::from_secs(45)),
            has_unreadable_time: false,
            duration: SignedDuration::from_secs(15),
            transitions: 0,
            scope: None,
        });
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
                "No controller makes decisions with the lease scaling/hpa, whose holder stored the \
                 status of 1 autoscaler: no instance holds it. The rest of the page may be old. No \
                 controller makes decisions with the lease kube-system/kube-controller-manager, \
                 whose holder stored the status of 2 autoscalers: cp-1 has not renewed it for 45s. \
                 The rest of the page may be old."
            )
        );
        assert_eq!(describe_leases(&leases, &[], &released), None);
    }
}
