//! The pods that a target owns: those whose chain of controller references ends at it.
//!
//! A Deployment owns its pods through `ReplicaSets`, and so does an Argo Rollout; most other kinds
//! own them directly. The owners in between are cached for five minutes, because a reference to a
//! controller changes only by adoption. So a rollout costs one request for its new ReplicaSet, and
//! an autoscaler that doesn't ask for owned pods costs nothing.
//!
//! A built-in kind owns pods in one way only. So if the target has such a kind, other owners of
//! pods with its labels, such as Jobs, are not read: their chains can't end at the target, and a
//! read would need a permission.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hpa_calc::{
    SelectedPods,
    api::{CrossVersionObjectReference, OwnerReference, Pod},
};
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    mapper::RestMapper,
    mapping::{GroupKind, MapperError, Mapping, parse_api_version},
    scale::{ScaleError, ScaleObject},
};
use crate::k8s::ApiRequest;

/// The time for which an owner is cached. An adoption takes effect within this time.
const MAX_AGE: Duration = Duration::from_mins(5);
/// The maximum number of references in a chain. The chain from a pod of a Deployment or an Argo
/// Rollout has two.
const MAX_CHAIN_LEN: usize = 5;
/// The maximum number of cached owners.
const MAX_OWNERS: usize = 50_000;

/// Follows chains of controller references.
pub struct Owners {
    client: Client,
    mapper: Arc<RestMapper>,
    timeout: Duration,
    /// The controllers of owners, by namespace and reference. Users write the references of their
    /// pods, so with the UID alone as the key, a pod could change the entry of another pod's owner.
    controllers: Mutex<HashMap<(Box<str>, OwnerReference), CachedController>>,
}

/// The controller of an owner, and the time when it was read.
#[derive(Clone)]
struct CachedController {
    controller: Option<OwnerReference>,
    read_at: Instant,
}

impl Owners {
    /// `timeout` limits each request.
    pub fn new(client: Client, mapper: Arc<RestMapper>, timeout: Duration) -> Self {
        Self { client, mapper, timeout, controllers: Mutex::default() }
    }

    /// The pods that the target owns.
    async fn owned(
        &self,
        namespace: &str,
        pods: Vec<Arc<Pod>>,
        target: &ChainEnd<'_>,
    ) -> Result<Vec<Arc<Pod>>, String> {
        let mut checked: HashSet<&OwnerReference> = HashSet::new();
        let mut owning: HashSet<&OwnerReference> = HashSet::new();
        for controller in pods.iter().filter_map(|pod| pod.controller.as_deref()) {
            if checked.insert(controller) && self.leads_to(namespace, controller, target).await? {
                owning.insert(controller);
            }
        }
        let is_owned = |pod: &&Arc<Pod>| {
            pod.controller.as_ref().is_some_and(|controller| owning.contains(&**controller))
        };
        Ok(pods.iter().filter(is_owned).cloned().collect())
    }

    /// The selected pods that the target owns. If the owners can't be determined, the result has no
    /// pods, and [`SelectedPods::ownership_error`] has the reason.
    pub async fn only_owned(
        &self,
        namespace: &str,
        pods: Vec<Arc<Pod>>,
        target: &ScaleObject,
        reference: &CrossVersionObjectReference,
    ) -> SelectedPods {
        let owned = match target.uid.as_str() {
            "" => Err("the API server doesn't send the target's UID".to_owned()),
            uid => self.owned(namespace, pods, &ChainEnd { uid, reference }).await,
        };
        match owned {
            Ok(pods) => SelectedPods { pods, ..SelectedPods::default() },
            Err(error) => SelectedPods { ownership_error: Some(error), ..SelectedPods::default() },
        }
    }

    /// Whether the chain that begins with this owner ends at the target.
    async fn leads_to(
        &self,
        namespace: &str,
        first: &OwnerReference,
        target: &ChainEnd<'_>,
    ) -> Result<bool, String> {
        let mut owner = first.clone();
        for _ in 0..MAX_CHAIN_LEN {
            if *owner.uid == *target.uid {
                return Ok(true);
            }
            if !target.may_own(&owner) {
                return Ok(false);
            }
            match self.controller_of(namespace, &owner).await? {
                Some(next) => owner = next,
                None => return Ok(false),
            }
        }
        Err(format!("the chain of owners of {} {} is too long", first.kind, first.name))
    }

    /// The controller of an owner; `None` if it has none or no longer exists.
    async fn controller_of(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<OwnerReference>, String> {
        let key = (Box::from(namespace), owner.clone());
        if let Some(cached) = self.controllers.lock().get(&key)
            && cached.read_at.elapsed() < MAX_AGE
        {
            return Ok(cached.controller.clone());
        }
        let controller = self.read_controller(namespace, owner).await?;
        let cached = CachedController { controller: controller.clone(), read_at: Instant::now() };
        let mut controllers = self.controllers.lock();
        if controllers.len() >= MAX_OWNERS {
            controllers.retain(|_, cached| cached.read_at.elapsed() < MAX_AGE);
        }
        if controllers.len() < MAX_OWNERS {
            controllers.insert(key, cached);
        }
        Ok(controller)
    }

    async fn read_controller(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<OwnerReference>, String> {
        let OwnerReference { kind, name, .. } = owner;
        let mapping =
            self.mapping(owner).await.map_err(|error| format!("{kind} {name}: {error}"))?;
        // A target is namespaced, and an object without a namespace can't have a namespaced owner.
        if !mapping.namespaced {
            return Ok(None);
        }
        let path = mapping.object_path(namespace, name);
        let request = ApiRequest {
            subject: Some((&mapping.resource, name)),
            metadata_only: true,
            ..ApiRequest::get(&self.client, self.timeout, path)
        };
        match request.send::<Owner>().await.map_err(ScaleError::from) {
            // A new object of the same name is not the owner.
            Ok(read) if *read.metadata.uid != *owner.uid => Ok(None),
            Ok(read) => Ok(OwnerReference::of_controller(&read.metadata.owner_references).cloned()),
            Err(ScaleError::NotFound(_)) => Ok(None),
            Err(error) => {
                if matches!(error, ScaleError::NotServed(_)) {
                    // The cached discovery is out of date.
                    self.mapper.invalidate(&mapping.group);
                }
                Err(format!("unable to read {kind} {name}: {error}"))
            }
        }
    }

    async fn mapping(&self, owner: &OwnerReference) -> Result<Mapping, MapperError> {
        let kind = GroupKind::parse(&owner.api_version, &owner.kind)?;
        self.mapper.preferred_mapping(&kind).await
    }
}

/// The target at which chains must end.
struct ChainEnd<'a> {
    uid: &'a str,
    reference: &'a CrossVersionObjectReference,
}

impl ChainEnd<'_> {
    /// Whether an owner of this kind can be between the target and its pods.
    fn may_own(&self, owner: &OwnerReference) -> bool {
        fn group(api_version: &str) -> Option<&str> {
            parse_api_version(api_version).ok().map(|(group, _)| group)
        }

        match (group(&self.reference.api_version), self.reference.kind.as_str()) {
            (Some("apps"), "Deployment") => {
                &*owner.kind == "ReplicaSet" && group(&owner.api_version) == Some("apps")
            }
            (Some("apps"), "StatefulSet" | "ReplicaSet") | (Some(""), "ReplicationController") => {
                false
            }
            _ => true,
        }
    }
}

/// An owner, as an object with metadata only.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    metadata: OwnerMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerMetadata {
    uid: String,
    owner_references: Vec<OwnerReference>,
}
