//! The holder of a lease, and its pod.

use std::fmt;

use hpa_controller::{INSTANCE_SCOPE, InstanceScope, KEEPS_HISTORY};
use hpa_lease::{ElectionLease, LeaseTime};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, core::ObjectList};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{lease_key::LeaseKey, unavailable::Unavailable};
use crate::{
    kubectl::{api_server_time, escape, get, get_if_served, get_pod, is_not_found},
    manifests::items,
};

/// The name of the container port of the debug API.
const DEBUG_PORT_NAME: &str = "debug";

/// The maximum number of leases that are read of a namespace.
const MAX_LISTED: u32 = 500;

/// A difference between the clocks of a holder and the API server is corrected only if it is longer
/// than this. A holder sets the renew time before its request, which may take seconds.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// A held lease, as its holder last renewed it. The times are by the API server's clock.
#[derive(Clone, Debug)]
pub(crate) struct LeaseHolder {
    pub(crate) lease: LeaseKey,
    /// The time of the request, by the API server's clock. Expiry is computed for this time and not
    /// for now, because the holder may have renewed the lease since.
    pub(crate) requested_at: Timestamp,
    /// The pod name or host name of the holder, `_` and a UUID.
    pub(crate) identity: String,
    /// The time at which the holder acquired the lease. `None` if the lease has no such time, or
    /// one that a `Timestamp` can't represent.
    pub(crate) acquired: Option<Timestamp>,
    /// `None` if the lease has no renew time, or one that a `Timestamp` can't represent.
    pub(crate) renewed: Option<Timestamp>,
    /// Whether the lease has a renew time that a `Timestamp` can't represent.
    pub(crate) has_unreadable_time: bool,
    /// The lead of the holder's clock over the API server's. Negative if the holder's clock is
    /// behind, or if the API server stored the renewal late. Zero if the difference is small.
    pub(crate) clock_lead: SignedDuration,
    pub(crate) duration: SignedDuration,
    pub(crate) transitions: i32,
    /// `None` if it is unknown: the holder didn't publish it on the lease.
    pub(crate) scope: Option<InstanceScope>,
}

/// A lease, and the time by the API server's clock at which its renew time was stored.
#[derive(Clone, Debug)]
struct StoredLease {
    object: ElectionLease,
    stored_at: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for StoredLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let entries = items(object.pointer("/metadata/managedFields"));
        let renewals =
            entries.filter(|entry| entry.pointer("/fieldsV1/f:spec/f:renewTime").is_some());
        let times =
            renewals.filter_map(|entry| entry.get("time")?.as_str()?.parse::<Timestamp>().ok());
        let stored_at = times.max();
        let object = ElectionLease::deserialize(object).map_err(D::Error::custom)?;
        Ok(Self { object, stored_at })
    }
}

/// The pod of a lease holder.
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
    pub(crate) async fn read(client: &Client, lease: &LeaseKey) -> Result<Self, Unavailable> {
        let path = format!("{}/{}", leases_path(&lease.namespace), escape(&lease.name));
        let requested_at = Timestamp::now();
        let object = get_if_served(client, &path)
            .await
            .map_err(|error| Unavailable::of_request(format!("get the lease {lease}"), &error))?;
        let object = object.ok_or_else(|| Unavailable::NoLease(lease.clone()))?;
        Self::of_object(lease, object, api_server_time(requested_at))
    }

    /// The holders of the leases of hpa-rs in a namespace. Empty if the leases can't be listed. An
    /// annotation shows that a lease is one of hpa-rs.
    pub(crate) async fn list(client: &Client, namespace: &str) -> Vec<Self> {
        let path = format!("{}?limit={MAX_LISTED}", leases_path(namespace));
        let requested_at = Timestamp::now();
        let listed = get::<ObjectList<StoredLease>>(client, &path).await;
        let listed = listed.map(|list| list.items).unwrap_or_default().into_iter();
        let requested_at = api_server_time(requested_at);
        let holders = listed.filter_map(|stored| {
            let metadata = &stored.object.metadata;
            let annotations = metadata.annotations.as_ref()?;
            [INSTANCE_SCOPE, KEEPS_HISTORY].iter().find_map(|name| annotations.get(*name))?;
            let name = metadata.name.clone()?;
            let lease = LeaseKey { namespace: namespace.to_owned(), name };
            Self::of_object(&lease, stored, requested_at).ok()
        });
        holders.collect()
    }

    /// Fails if the lease has no holder.
    fn of_object(
        lease: &LeaseKey,
        StoredLease { object, stored_at }: StoredLease,
        requested_at: Timestamp,
    ) -> Result<Self, Unavailable> {
        let spec = object.spec.unwrap_or_default();
        let identity = spec.holder_identity.filter(|holder| !holder.is_empty());
        // As in client-go, a lease without a duration expires at once.
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let renewed = spec.renew_time.as_ref().and_then(LeaseTime::timestamp);
        let has_unreadable_time = spec.renew_time.is_some() && renewed.is_none();
        let lead = renewed.zip(stored_at).map(|(renewed, stored)| renewed.duration_since(stored));
        let clock_lead = lead.filter(|lead| lead.abs() > CLOCK_TOLERANCE).unwrap_or_default();
        let by_api_server = |time: Timestamp| time.checked_sub(clock_lead).ok();
        let renewed = renewed.and_then(by_api_server);
        let Some(identity) = identity else {
            // A release is the last renewal.
            return Err(Unavailable::NotHeld { lease: lease.clone(), released: renewed });
        };
        let annotations = object.metadata.annotations.unwrap_or_default();
        let scope = annotations.get(INSTANCE_SCOPE);
        let scope = scope.and_then(|scope| InstanceScope::parse(scope, &identity));
        let acquired = spec.acquire_time.as_ref().and_then(LeaseTime::timestamp);
        Ok(Self {
            lease: lease.clone(),
            requested_at,
            identity,
            acquired: acquired.and_then(by_api_server),
            renewed,
            has_unreadable_time,
            clock_lead,
            duration: SignedDuration::from_secs(seconds.into()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            scope,
        })
    }

    /// Whether the holder has let the lease expire. A lease without a readable renew time counts as
    /// expired.
    pub(crate) fn is_expired(&self) -> bool {
        self.age().is_none_or(|age| age > self.duration)
    }

    /// The time since the last renewal when the lease was read. `None` without a readable time.
    pub(crate) fn age(&self) -> Option<SignedDuration> {
        let age = self.requested_at.duration_since(self.renewed?);
        // The clock of the holder may be ahead a little, which is not corrected.
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

    /// The identity without its UUID: for hpa-rs the pod's name, for kube-controller-manager
    /// usually the node's.
    pub(crate) fn host_name(&self) -> &str {
        self.identity.rsplit_once('_').map_or(&*self.identity, |(host, _)| host)
    }

    /// Reads the pod of the holder.
    pub(crate) async fn read_leader_pod(&self, client: &Client) -> Result<LeaderPod, Unavailable> {
        let (namespace, name) = (&self.lease.namespace, self.host_name());
        let pod = get_pod(client, namespace, name).await.map_err(|error| {
            let pod = format!("{namespace}/{name}");
            if is_not_found(&error) {
                Unavailable::NoPod { pod }
            } else {
                Unavailable::of_request(format!("get the pod {pod}"), &error)
            }
        })?;
        Ok(LeaderPod {
            namespace: namespace.clone(),
            pod: name.to_owned(),
            is_ready: is_ready(&pod),
            debug_port: debug_port(&pod),
        })
    }
}

fn leases_path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", escape(namespace))
}

/// A clause about a controller whose clock leads the API server's by this time, if they clearly
/// differ.
pub(crate) fn describe_wrong_clock(lead: SignedDuration) -> Option<String> {
    let direction = if lead.is_negative() { "behind" } else { "ahead of" };
    let clause = || {
        let difference = format_difference(lead.abs());
        format!(
            "the controller misjudges times: its clock is {difference} {direction} that of the API \
             server"
        )
    };
    (lead.abs() > CLOCK_TOLERANCE).then(clause)
}

/// Formats the difference between two clocks, rounded.
fn format_difference(difference: SignedDuration) -> String {
    let is_in_minutes = difference >= SignedDuration::from_mins(1);
    let half = SignedDuration::from_secs(if is_in_minutes { 30 } else { 0 });
    format_minutes(difference.saturating_add(half))
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

fn is_ready(pod: &Value) -> bool {
    let mut conditions = items(pod.pointer("/status/conditions"));
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn debug_port(pod: &Value) -> Option<i32> {
    let containers = items(pod.pointer("/spec/containers"));
    let mut ports = containers.flat_map(|container| items(container.get("ports")));
    let port = ports.find(|port| port["name"] == DEBUG_PORT_NAME)?;
    port["containerPort"].as_i64()?.try_into().ok()
}

/// Formats the pod as `namespace/name`.
impl fmt::Display for LeaderPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)
    }
}
