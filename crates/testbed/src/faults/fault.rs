//! Faults: the requests that they match, their time, and their serialized form.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::{optional, required};
use serde::Deserialize;
use serde_json::Value;

use super::effect::Effect;
use crate::request::RequestInfo;

/// A fault: the affected requests, the time, and the effect. Without conditions, it affects all
/// matching requests; several conditions must all hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    #[serde(default, rename = "match")]
    pub(super) matching: Match,
    #[serde(default, with = "required")]
    pub(super) from: Duration,
    #[serde(default, with = "optional")]
    pub(super) until: Option<Duration>,
    #[serde(default = "always")]
    probability: f64,
    nth: Option<u64>,
    every: Option<u64>,
    first: Option<u64>,
    pub(super) effect: Effect,
}

fn always() -> f64 {
    1.0
}

/// An invalid serialized fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct InvalidFault {
    /// Path of the invalid field, starting with `fault`.
    path: String,
    message: String,
}

impl Fault {
    /// A fault for all matching requests. By default, its effect is 500 `InternalError`.
    pub fn on(matching: Match) -> Self {
        Self {
            matching,
            from: Duration::ZERO,
            until: None,
            probability: always(),
            nth: None,
            every: None,
            first: None,
            effect: Effect::InternalError,
        }
    }

    /// Deserializes and validates a fault.
    pub fn from_json(value: &Value) -> Result<Self, InvalidFault> {
        let fault: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let path = if inner == "." { "fault".to_owned() } else { format!("fault.{inner}") };
            InvalidFault { path, message: error.inner().to_string() }
        })?;
        match fault.validate() {
            Ok(()) => Ok(fault),
            Err(message) => Err(InvalidFault { path: "fault".to_owned(), message }),
        }
    }

    fn validate(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("probability: {} is not from 0 to 1", self.probability));
        }
        for (name, count) in [("nth", self.nth), ("every", self.every), ("first", self.first)] {
            if count == Some(0) {
                return Err(format!("{name}: must be 1 or more"));
            }
        }
        if self.until.is_some_and(|until| until <= self.from) {
            return Err("until: must be later than from".to_owned());
        }
        Ok(())
    }

    /// Affects each request with this probability, from 0 to 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Affects only the nth matching request while the fault is active, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Affects every nth matching request while the fault is active: with 3 the 3rd, the 6th, ...
    #[must_use]
    pub fn every(mut self, count: u64) -> Self {
        self.every = Some(count);
        self
    }

    /// Affects at most this many requests.
    #[must_use]
    pub fn first(mut self, count: u64) -> Self {
        self.first = Some(count);
        self
    }

    /// Starts the fault at this time after the [`Faults`](super::Faults) were created.
    #[must_use]
    pub fn from(mut self, from: Duration) -> Self {
        self.from = from;
        self
    }

    /// Ends the fault at this time after the [`Faults`](super::Faults) were created.
    #[must_use]
    pub fn until(mut self, until: Duration) -> Self {
        self.until = Some(until);
        self
    }

    /// Sets the effect.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Whether the fault affects the `count`th matching request, if it has affected `hits` requests
    /// before. `draw` is a random number in [0, 1).
    pub(super) fn fires(&self, count: u64, hits: u64, draw: f64) -> bool {
        self.nth.is_none_or(|nth| count == nth)
            && self.every.is_none_or(|every| count.is_multiple_of(every))
            && self.first.is_none_or(|first| hits < first)
            && draw < self.probability
    }
}

/// Matches requests. A property that isn't set matches every request.
///
/// A request without a resource (discovery, health) matches only if no properties other than
/// clients and verbs are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    clients: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<String>,
    subresources: Vec<String>,
    namespaces: Vec<String>,
    names: Vec<String>,
}

impl Match {
    /// Matches all requests.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests with this verb, such as `list` or `update`.
    pub fn verb(verb: &str) -> Self {
        Self::verbs([verb])
    }

    /// Matches requests with one of these verbs.
    pub fn verbs<'a>(verbs: impl IntoIterator<Item = &'a str>) -> Self {
        Self { verbs: verbs.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Matches requests of this client: see [`RequestInfo::client`]. This method and those below
    /// can be called repeatedly to match several values.
    #[must_use]
    pub fn client(mut self, client: &str) -> Self {
        self.clients.push(client.to_owned());
        self
    }

    /// Matches this API group. Empty for the core group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// Matches this resource, by its plural name.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Matches this subresource. Empty for the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresources.push(subresource.to_owned());
        self
    }

    /// Matches this namespace. Empty for cluster-scoped requests and for those across all
    /// namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Matches the object with this name. Empty for requests without a name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    pub(super) fn matches(&self, request: &RequestInfo) -> bool {
        let resource_properties = [
            (&self.groups, &request.group),
            (&self.resources, &request.resource),
            (&self.subresources, &request.subresource),
            (&self.namespaces, &request.namespace),
            (&self.names, &request.name),
        ];
        let has_resource = !request.resource.is_empty();
        accepts(&self.clients, &request.client)
            && accepts(&self.verbs, &request.verb)
            && resource_properties.iter().all(|(accepted, actual)| {
                accepted.is_empty() || has_resource && accepts(accepted, actual)
            })
    }
}

fn accepts(accepted: &[String], actual: &str) -> bool {
    accepted.is_empty() || accepted.iter().any(|one| one == actual)
}
