//! The requests and limits of a pod.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::{Container, PodSpec, PodStatus, open_enum};
use crate::quantity::{MilliValue, Quantity, QuantityError, deserialize_result, saturate};

open_enum! {
    /// The name of a resource. CPU and memory have separate rules.
    ResourceName {
        /// The resource `cpu`.
        Cpu = "cpu",
        /// The resource `memory`.
        Memory = "memory",
    }
}

/// The request or limit of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceAmount {
    /// The resource.
    pub resource: ResourceName,
    /// The amount, rounded up to milli-units. `None` if its text is longer than
    /// [`MAX_TEXT_LEN`](crate::quantity::MAX_TEXT_LEN). The API accepts such a pod, so the pod must
    /// be decodable, but a calculation that needs the amount fails.
    pub amount: Option<MilliValue>,
}

/// The requests and limits of one container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerResources {
    /// The container's name.
    pub name: Box<str>,
    /// The container's requests.
    pub requests: Box<[ResourceAmount]>,
    /// The container's limits.
    pub limits: Box<[ResourceAmount]>,
}

/// Requests and limits, by container and for the whole pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceAmounts {
    /// The containers, then the restartable init containers (sidecars).
    pub containers: Box<[ContainerResources]>,
    /// The effective requests if the pod has pod-level requests (KEP-2837), else `None`.
    pub pod_level_requests: Option<Box<[ResourceAmount]>>,
    /// The pod-level limits. Resources without one have the limits of the containers.
    pub pod_level_limits: Box<[ResourceAmount]>,
}

/// The requests and limits of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodResources {
    /// The requests and limits of the pod's spec.
    pub spec: ResourceAmounts,
    /// The requests and limits that the kubelet has applied, if they differ from the spec, as
    /// during an in-place resize (KEP-1287, KEP-5419).
    pub actual: Option<Box<ResourceAmounts>>,
}

impl PodResources {
    pub(super) fn new(spec: &PodSpec, status: &PodStatus) -> Self {
        let actual = actual_spec(spec, status).map(|spec| Box::new((&spec).into()));
        Self { spec: spec.into(), actual }
    }

    /// The requests and limits that the kubelet has applied.
    pub fn actual(&self) -> &ResourceAmounts {
        self.actual.as_deref().unwrap_or(&self.spec)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    #[serde(deserialize_with = "crate::api::null_as_empty")]
    requests: BTreeMap<String, Amount>,
    #[serde(deserialize_with = "crate::api::null_as_empty")]
    limits: BTreeMap<String, Amount>,
}

/// The amount of a request or limit, or `None` if its text is too long to be read. Decoding fails
/// for any other invalid text, because the API server stores none.
#[derive(Clone, Debug)]
struct Amount(Option<Quantity>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserialize_result(deserializer)? {
            Ok(quantity) => Ok(Self(Some(quantity))),
            Err(QuantityError::TooLong) => Ok(Self(None)),
            Err(error) => Err(de::Error::custom(error)),
        }
    }
}

impl Amount {
    fn milli_value(&self) -> Option<MilliValue> {
        self.0.as_ref().map(Quantity::milli_value)
    }

    fn nano_value(&self) -> Option<i128> {
        self.0.as_ref().map(Quantity::nano_value)
    }
}

impl Container {
    fn is_restartable(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    fn requests(&self) -> impl Iterator<Item = (&String, &Amount)> {
        self.resources.iter().flat_map(|resources| &resources.requests)
    }
}

impl From<&Container> for ContainerResources {
    fn from(container: &Container) -> Self {
        let resources = container.resources.as_ref();
        Self {
            name: container.name.clone(),
            requests: resources.map_or_else(Box::default, |all| amounts(&all.requests)),
            limits: resources.map_or_else(Box::default, |all| amounts(&all.limits)),
        }
    }
}

fn amounts(by_resource: &BTreeMap<String, Amount>) -> Box<[ResourceAmount]> {
    let amounts = by_resource.iter().map(|(resource, amount)| ResourceAmount {
        resource: resource.as_str().into(),
        amount: amount.milli_value(),
    });
    amounts.collect()
}

impl From<&PodSpec> for ResourceAmounts {
    fn from(spec: &PodSpec) -> Self {
        let sidecars = spec.init_containers.iter().filter(|container| container.is_restartable());
        let pod_level = spec.resources.as_ref();
        Self {
            containers: spec
                .containers
                .iter()
                .chain(sidecars)
                .map(ContainerResources::from)
                .collect(),
            pod_level_requests: pod_level_requests(spec),
            pod_level_limits: pod_level.map_or_else(Box::default, |all| amounts(&all.limits)),
        }
    }
}

/// The spec with the requests and limits that the kubelet has applied according to the status. A
/// resource that the status doesn't have keeps the amount of the spec. `None` if the amounts don't
/// differ.
fn actual_spec(spec: &PodSpec, status: &PodStatus) -> Option<PodSpec> {
    let statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
    let reported: BTreeMap<&str, &Resources> =
        statuses.filter_map(|status| Some((&*status.name, status.resources.as_ref()?))).collect();
    let containers = || spec.containers.iter().chain(&spec.init_containers);
    let is_resized = |container: &Container| {
        let reported = reported.get(&*container.name);
        reported.is_some_and(|reported| reported.differ_from(container.resources.as_ref()))
    };
    // The kubelet reports pod-level resources only if the spec has some.
    let pod_level = spec.resources.as_ref().zip(status.resources.as_ref());
    let is_pod_resized =
        pod_level.is_some_and(|(specified, reported)| reported.differ_from(Some(specified)));
    if !is_pod_resized && !containers().any(is_resized) {
        return None;
    }
    let mut actual = spec.clone();
    for container in actual.containers.iter_mut().chain(&mut actual.init_containers) {
        if let Some(reported) = reported.get(&*container.name) {
            container.resources.get_or_insert_default().overlay(reported);
        }
    }
    if let Some((specified, reported)) = actual.resources.as_mut().zip(status.resources.as_ref()) {
        specified.overlay(reported);
    }
    Some(actual)
}

impl Resources {
    /// Whether a reported amount differs from that of the spec, or is missing there.
    fn differ_from(&self, spec: Option<&Self>) -> bool {
        let differ = |reported: &BTreeMap<String, Amount>, spec: Option<&BTreeMap<_, Amount>>| {
            reported.iter().any(|(resource, amount)| {
                let specified = spec.and_then(|amounts| amounts.get(resource));
                specified.is_none_or(|specified| specified.nano_value() != amount.nano_value())
            })
        };
        differ(&self.requests, spec.map(|spec| &spec.requests))
            || differ(&self.limits, spec.map(|spec| &spec.limits))
    }

    fn overlay(&mut self, reported: &Self) {
        self.requests.extend(reported.requests.clone());
        self.limits.extend(reported.limits.clone());
    }
}

/// Amounts by resource in nano-units, the smallest unit of a quantity. An amount is `None` if it
/// includes a request that is too long to be read.
type NanoAmounts<'a> = BTreeMap<&'a str, Option<i128>>;

/// The effective requests of a pod with pod-level requests: the pod-level request for a resource if
/// there is one, else that of [`container_requests`] (KEP-753, KEP-2837). The pod's overhead
/// doesn't count (kubernetes#142154).
fn pod_level_requests(spec: &PodSpec) -> Option<Box<[ResourceAmount]>> {
    let pod_level = &spec.resources.as_ref()?.requests;
    let pod_level = pod_level.iter().filter(|(resource, _)| is_pod_level_resource(resource));
    let pod_level: NanoAmounts<'_> =
        pod_level.map(|(resource, amount)| (resource.as_str(), amount.nano_value())).collect();
    if pod_level.is_empty() {
        return None;
    }
    let mut effective = container_requests(spec);
    effective.extend(pod_level);
    let requests = effective.into_iter().map(|(resource, nanos)| ResourceAmount {
        resource: resource.into(),
        amount: nanos.map(milli_from_nano),
    });
    Some(requests.collect())
}

fn is_pod_level_resource(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

/// The largest request for each resource at any time of the pod's life: the sum of the containers
/// and sidecars, or, while an init container runs, the sum of that container and the sidecars
/// before it.
fn container_requests(spec: &PodSpec) -> NanoAmounts<'_> {
    let mut sum = NanoAmounts::new();
    for container in &spec.containers {
        add_requests(&mut sum, container);
    }
    let mut sidecars = NanoAmounts::new();
    let mut at_init = NanoAmounts::new();
    for container in &spec.init_containers {
        if container.is_restartable() {
            add_requests(&mut sum, container);
            add_requests(&mut sidecars, container);
            raise_to(&mut at_init, &sidecars);
        } else {
            let mut running = sidecars.clone();
            add_requests(&mut running, container);
            raise_to(&mut at_init, &running);
        }
    }
    raise_to(&mut sum, &at_init);
    sum
}

fn add_requests<'a>(sum: &mut NanoAmounts<'a>, container: &'a Container) {
    for (resource, amount) in container.requests() {
        let entry = sum.entry(resource).or_insert(Some(0));
        *entry = entry.zip(amount.nano_value()).map(|(sum, nanos)| sum.saturating_add(nanos));
    }
}

fn raise_to<'a>(amounts: &mut NanoAmounts<'a>, minimum: &NanoAmounts<'a>) {
    for (resource, amount) in minimum {
        let entry = amounts.entry(resource).or_insert(*amount);
        *entry = entry.zip(*amount).map(|(one, two)| one.max(two));
    }
}

fn milli_from_nano(nanos: i128) -> MilliValue {
    const NANOS_PER_MILLI: i128 = 1_000_000;
    let up = nanos.div_euclid(NANOS_PER_MILLI) + i128::from(nanos.rem_euclid(NANOS_PER_MILLI) != 0);
    MilliValue::from_milli(saturate(up))
}
