//! The holder of a lease, and its pod.

use std::fmt;

use hpa_controller::{INSTANCE_SCOPE, InstanceScope, KEEPS_HISTORY};
use hpa_lease::{ElectionLease, LeaseTime};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};

use super::{lease_name::LeaseName, unavailable::Unavailable};

/// The name of the container port of the debug API.
const DEBUG_PORT_NAME: &str = "debug";

/// The maximum number of leases that are read of a namespace.
const MAX_LISTED: u32 = 500;

/// A held lease, as its holder last renewed it.
#[derive(Clone, Debug)]
pub(crate) struct LeaseHolder {
    pub(crate) lease: LeaseName,
    /// The time at which the lease was requested. The holder is judged by it, because it may have
    /// renewed the lease while something else was read.
    pub(crate) read_at: Timestamp,
    /// The pod name or host name of the holder, `_` and a UUID.
    pub(crate) identity: String,
    /// The time at which the holder acquired the lease. `None` if the lease has no such time, or
    /// one that a `Timestamp` can't represent.
    pub(crate) acquired: Option<Timestamp>,
    /// `None` if the lease has no renew time, or one that a `Timestamp` can't represent.
    pub(crate) renewed: Option<Timestamp>,
    /// Whether the lease has a renew time that a `Timestamp` can't represent.
    pub(crate) has_unreadable_time: bool,
    pub(crate) duration: SignedDuration,
    pub(crate) transitions: i32,
    /// `None` if it is unknown: the holder didn't publish it on the lease.
    pub(crate) scope: Option<InstanceScope>,
}

#[derive(Clone, Debug)]
pub(crate) struct LeaderPod {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) is_ready: bool,
    /// `None` if no container has a port named `debug`, as when the debug API is off.
    pub(crate) debug_port: Option<i32>,
}

impl LeaseHolder {
    /// Reads a lease. Fails if it doesn't exist or has no holder.
    pub(crate) async fn read(client: &Client, lease: &LeaseName) -> Result<Self, Unavailable> {
        let leases: Api<ElectionLease> = Api::namespaced(client.clone(), &lease.namespace);
        let read_at = Timestamp::now();
        let object = leases.get_opt(&lease.name).await;
        let action = format!("get the lease {lease}");
        let object = object.map_err(|error| Unavailable::request(&action, error))?;
        let object = object.ok_or_else(|| Unavailable::NoLease(lease.clone()))?;
        Self::of_object(lease, object, read_at)
    }

    /// The holders of the leases of hpa-rs in a namespace. Empty if the user may not list leases.
    /// An annotation shows that a lease is one of hpa-rs.
    pub(crate) async fn list(client: &Client, namespace: &str) -> Vec<Self> {
        let leases: Api<ElectionLease> = Api::namespaced(client.clone(), namespace);
        let read_at = Timestamp::now();
        let listed = leases.list(&ListParams::default().limit(MAX_LISTED)).await;
        let listed = listed.map(|list| list.items).unwrap_or_default().into_iter();
        let holders = listed.filter_map(|object| {
            let annotations = object.metadata.annotations.as_ref()?;
            [INSTANCE_SCOPE, KEEPS_HISTORY].iter().find_map(|name| annotations.get(*name))?;
            let name = object.metadata.name.clone()?;
            let lease = LeaseName { namespace: namespace.to_owned(), name };
            Self::of_object(&lease, object, read_at).ok()
        });
        holders.collect()
    }

    /// Fails if the lease has no holder.
    fn of_object(
        lease: &LeaseName,
        object: ElectionLease,
        read_at: Timestamp,
    ) -> Result<Self, Unavailable> {
        let spec = object.spec.unwrap_or_default();
        let identity = spec.holder_identity.filter(|holder| !holder.is_empty());
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let renewed = spec.renew_time.as_ref().and_then(LeaseTime::timestamp);
        let Some(identity) = identity else {
            // A release is the last renewal.
            return Err(Unavailable::NotHeld { lease: lease.clone(), released: renewed });
        };
        let annotations = object.metadata.annotations.unwrap_or_default();
        let scope = annotations.get(INSTANCE_SCOPE);
        let scope = scope.and_then(|scope| InstanceScope::parse(scope, &identity));
        Ok(Self {
            lease: lease.clone(),
            read_at,
            identity,
            acquired: spec.acquire_time.as_ref().and_then(LeaseTime::timestamp),
            renewed,
            has_unreadable_time: spec.renew_time.is_some() && renewed.is_none(),
            duration: SignedDuration::from_secs(seconds.into()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            scope,
        })
    }

    /// Whether the holder has let the lease expire. A lease with an unreadable time counts as
    /// expired.
    pub(crate) fn is_expired(&self) -> bool {
        self.age().is_none_or(|age| age > self.duration)
    }

    /// The time since the last renewal when the lease was read. `None` without a readable time.
    pub(crate) fn age(&self) -> Option<SignedDuration> {
        let age = self.read_at.duration_since(self.renewed?);
        // The clock of the holder may be ahead of this one.
        Some(age.max(SignedDuration::ZERO))
    }

    /// The time at which the lease expires unless it is renewed. `None` without a readable time.
    pub(crate) fn expiry(&self) -> Option<Timestamp> {
        self.renewed?.checked_add(self.duration).ok()
    }

    /// A message such as `no controller has renewed the lease a/b for 47s`.
    pub(crate) fn describe_expiry(&self) -> String {
        let lease = &self.lease;
        if self.has_unreadable_time {
            return format!("the time of the last renewal of the lease {lease} can't be read");
        }
        let since = self.age().map(|age| format!(" for {}", format_minutes(age)));
        let since = since.unwrap_or_else(|| " yet".to_owned());
        format!("no controller has renewed the lease {lease}{since}")
    }

    /// The identity without its UUID: for hpa-rs the pod's name, for kube-controller-manager usually
    /// the node's.
    pub(crate) fn host_name(&self) -> &str {
        self.identity.rsplit_once('_').map_or(&*self.identity, |(host, _)| host)
    }

    /// Reads the pod of the holder.
    pub(crate) async fn read_leader_pod(&self, client: &Client) -> Result<LeaderPod, Unavailable> {
        let (namespace, name) = (&self.lease.namespace, self.host_name());
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let action = format!("get the pod {namespace}/{name}");
        let pod = pods.get_opt(name).await.map_err(|error| Unavailable::request(&action, error))?;
        let pod = pod.ok_or_else(|| Unavailable::NoPod { pod: format!("{namespace}/{name}") })?;
        Ok(LeaderPod {
            namespace: namespace.clone(),
            pod: name.to_owned(),
            is_ready: is_ready(&pod),
            debug_port: debug_port(&pod),
        })
    }
}

/// Formats `40s`, `3m` or `2h 5m`. Seconds are left out after the first minute, because each
/// change of a sentence of the dashboard is sent to all pages.
pub(crate) fn format_minutes(age: SignedDuration) -> String {
    let (hours, minutes) = (age.as_hours(), age.as_mins() % 60);
    match (hours, minutes) {
        (0, 0) => format!("{}s", age.as_secs()),
        (0, _) => format!("{minutes}m"),
        _ => format!("{hours}h {minutes}m"),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn debug_port(pod: &Pod) -> Option<i32> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.filter_map(|container| container.ports.as_ref()).flatten();
    let port = ports.find(|port| port.name.as_deref() == Some(DEBUG_PORT_NAME));
    port.map(|port| port.container_port)
}

/// Formats the pod as `namespace/name`.
impl fmt::Display for LeaderPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)
    }
}
