//! The scales of one kind in one scope.

#[cfg(test)]
mod tests;

use hashbrown::{HashMap, HashSet};
use hpa_calc::api::Scale;
use parking_lot::RwLock;

use crate::{cache::StrPair, scale_target::ScaleObject};

/// Scales by namespace and name, as far as they are known.
#[derive(Default)]
pub(crate) struct ScaleCache {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// Whether a watch is there that tells of every change.
    is_current: bool,
    scales: HashMap<Name, Known>,
    list: Option<List>,
}

/// A list that has not ended.
#[derive(Default)]
struct List {
    scales: HashMap<Name, Known>,
    /// Whose scale was learned since the list began: it may be newer than the list.
    learned: HashSet<Name>,
}

type Name = (Box<str>, Box<str>);

/// A scale, small: there may be many more of them than autoscalers.
struct Known {
    spec_replicas: i32,
    status_replicas: i32,
    selector: Box<str>,
    uid: Box<str>,
    version: Box<str>,
}

impl Known {
    fn of(read: &ScaleObject) -> Self {
        Self {
            spec_replicas: read.scale.spec_replicas,
            status_replicas: read.scale.status_replicas,
            selector: read.scale.selector.as_str().into(),
            uid: read.uid.as_str().into(),
            version: read.resource_version.as_str().into(),
        }
    }

    fn read(&self) -> ScaleObject {
        let scale = Scale {
            spec_replicas: self.spec_replicas,
            status_replicas: self.status_replicas,
            selector: self.selector.to_string(),
        };
        ScaleObject { scale, uid: self.uid.to_string(), resource_version: self.version.to_string() }
    }
}

/// Whether a version comes after another. Versions are numbers that grow (KEP-5504).
fn is_after(version: &str, other: &str) -> bool {
    matches!((version.parse::<u64>(), other.parse::<u64>()), (Ok(version), Ok(other)) if version > other)
}

impl ScaleCache {
    /// The scale of this name, if it is known.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<ScaleObject> {
        let state = self.state.read();
        state.scales.get(&StrPair(namespace, name)).filter(|_| state.is_current).map(Known::read)
    }

    /// Takes in an answer of the API server about a scale that is known, if it is newer. What is not known is left for the
    /// watch to tell: it may be gone already, which an answer cannot say.
    pub(crate) fn observe_response(&self, namespace: &str, name: &str, read: &ScaleObject) {
        let mut state = self.state.write();
        let Some(known) = state.scales.get_mut(&StrPair(namespace, name)) else { return };
        if !is_after(&read.resource_version, &known.version) {
            return;
        }
        *known = Known::of(read);
        if let Some(list) = &mut state.list {
            list.learned.insert((namespace.into(), name.into()));
        }
    }

    /// A change that a watch tells of. One that is older than what was learned is left out.
    pub(crate) fn apply(&self, namespace: &str, name: &str, read: &ScaleObject) {
        let mut state = self.state.write();
        match state.scales.get_mut(&StrPair(namespace, name)) {
            Some(known) if is_after(&known.version, &read.resource_version) => {}
            Some(known) => *known = Known::of(read),
            None => _ = state.scales.insert((namespace.into(), name.into()), Known::of(read)),
        }
    }

    /// An object that is gone at this version, or can no longer be understood.
    pub(crate) fn delete(&self, namespace: &str, name: &str, version: &str) {
        let scales = &mut self.state.write().scales;
        if scales
            .get(&StrPair(namespace, name))
            .is_some_and(|known| !is_after(&known.version, version))
        {
            scales.remove(&StrPair(namespace, name));
        }
    }

    /// The watch failed: changes may go by unseen until all is listed anew.
    pub(crate) fn invalidate(&self) {
        self.state.write().is_current = false;
    }

    /// A list begins. One that was begun before is dropped.
    pub(crate) fn begin_list(&self) {
        self.state.write().list = Some(List::default());
    }

    /// An object of the list.
    pub(crate) fn list_apply(&self, namespace: &str, name: &str, read: &ScaleObject) {
        if let Some(list) = &mut self.state.write().list {
            list.scales.insert((namespace.into(), name.into()), Known::of(read));
        }
    }

    /// The list ends: it is how it is, even if versions went back because the API server's store was restored; but what was
    /// learned since it began may be newer.
    pub(crate) fn finish_list(&self) {
        let mut state = self.state.write();
        let Some(List { scales, learned }) = state.list.take() else { return };
        let before = std::mem::replace(&mut state.scales, scales);
        for (name, known) in before.into_iter().filter(|(name, _)| learned.contains(name)) {
            match state.scales.get_mut(&name) {
                Some(listed) if is_after(&known.version, &listed.version) => *listed = known,
                _ => {}
            }
        }
        state.is_current = true;
    }
}
