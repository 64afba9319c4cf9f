//! One autoscaler in the list: its state, and the reason in words, from its status.

use std::fmt;

use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    api::{ConditionReason, ConditionType},
    report::{ShortReport, State, Surroundings, Warning},
};
use hpa_controller::{AutoscalerApi, HpaKey};
use jiff::Timestamp;
use serde::Serialize;

/// The controller that stored the status last, as its field manager says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Controller {
    /// The field manager. Absent if no status was stored.
    pub(crate) name: Option<String>,
    pub(crate) at: Option<Timestamp>,
}

impl Controller {
    /// Whether it is the controller of Kubernetes, which ignores our annotations.
    pub(crate) fn is_reference(&self) -> bool {
        self.name.as_deref() == Some("kube-controller-manager")
    }
}

/// An autoscaler in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: Identity,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) state: State,
    pub(crate) sentence: String,
    /// Absent before the first status, and while the target's scale can't be read.
    pub(crate) current: Option<i32>,
    /// Absent before the first decision.
    pub(crate) desired: Option<i32>,
    /// The bounds at the last change of the object, by its schedule if it has one. Absent if the
    /// object can't be decoded.
    pub(crate) min: Option<i32>,
    pub(crate) max: Option<i32>,
    /// The settings that its controller applies, and the next change of scheduled bounds.
    pub(crate) settings: Option<String>,
    /// Whether settings are ignored or not used as written. The sentence says which.
    pub(crate) has_invalid_settings: bool,
    /// The largest value of a metric divided by its target.
    pub(crate) load: Option<f64>,
    pub(crate) last_scale: Option<Timestamp>,
    /// Since when there is no decision, if that is long ago. The rest of the row is as old.
    pub(crate) undecided_since: Option<Timestamp>,
    /// Whether the target's scale would complete the sentence.
    #[serde(skip)]
    pub(crate) needs_scale: bool,
    /// The names of the other autoscalers of the target.
    #[serde(skip)]
    pub(crate) of_same_target: Vec<String>,
}

impl Row {
    pub(crate) fn new(
        id: Identity,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        surroundings: Surroundings<'_>,
        now: Timestamp,
    ) -> Self {
        let bounds = settings.bounds_at(&hpa.spec, now);
        let (status, target) = (&hpa.status, &hpa.spec.scale_target_ref);
        let report = ShortReport::in_cluster(hpa, settings, surroundings);
        let needs_scale = report.needs_scale();
        let ShortReport { state, sentence, load, warnings, .. } = report;
        Self {
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            id,
            target: format!("{}/{}", target.kind, target.name),
            state,
            sentence,
            current: current_replicas(hpa).filter(|_| !status.conditions.is_empty()),
            desired: desired_replicas(hpa),
            min: Some(bounds.min_replicas),
            max: Some(bounds.max_replicas),
            settings: own_settings(hpa, settings),
            has_invalid_settings: warnings.contains(&Warning::InvalidSettings),
            load,
            last_scale: status.last_scale_time,
            undecided_since: None,
            needs_scale,
            of_same_target: surroundings.of_same_target.to_vec(),
        }
    }

    /// An object that doesn't have the fields of an autoscaler.
    pub(crate) fn undecodable(id: Identity, error: &str) -> Self {
        let (hpa, settings) = (HorizontalPodAutoscaler::default(), Settings::default());
        let surroundings = Surroundings::default();
        let mut row = Self::new(id, &hpa, &settings, surroundings, Timestamp::UNIX_EPOCH);
        row.state = State::Failing;
        row.target = String::new();
        (row.min, row.max) = (None, None);
        row.sentence = format!("the object is not an autoscaler: {error}");
        row
    }
}

/// The settings of the autoscaler, by its status. A dry run stores none.
fn own_settings(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Option<String> {
    if settings.dry_run {
        let own = settings.autoscaler_settings.as_ref();
        let applied = own.map(|own| &*own.applied).filter(|applied| !applied.is_empty());
        return Some(["dry-run=true"].into_iter().chain(applied).collect::<Vec<_>>().join(", "));
    }
    let custom = hpa.status.condition(&ConditionType::CustomSettings);
    custom.map(|condition| condition.message.to_string())
}

/// The current replicas in the status. `None` if the controller could not read the scale: the
/// status then has the previous replicas, or 0.
pub(crate) fn current_replicas(hpa: &HorizontalPodAutoscaler) -> Option<i32> {
    let able = hpa.status.condition(&ConditionType::AbleToScale);
    let is_unread = able.is_some_and(|one| one.reason == ConditionReason::FailedGetScale);
    (!is_unread).then_some(hpa.status.current_replicas)
}

/// The desired replicas of the status. A controller that has never decided stores none, which is 0
/// on the wire.
pub(crate) fn desired_replicas(hpa: &HorizontalPodAutoscaler) -> Option<i32> {
    let status = &hpa.status;
    let is_active = status.is_true(&ConditionType::ScalingActive);
    let is_known = status.desired_replicas != 0 || is_active || current_replicas(hpa) == Some(0);
    (is_known && !status.conditions.is_empty()).then_some(status.desired_replicas)
}

/// Identifies an autoscaler in addresses and messages: `core/shop/web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api: AutoscalerApi,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl From<&HpaKey> for Identity {
    fn from(key: &HpaKey) -> Self {
        Self { api: key.api, namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

impl From<&Identity> for HpaKey {
    fn from(id: &Identity) -> Self {
        Self::for_api(id.api, id.namespace.as_str(), id.name.as_str())
    }
}

impl Identity {
    /// Parses what `Display` prints.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (api, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        let api = AutoscalerApi::ALL.into_iter().find(|one| api_name(*one) == api)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        Some(Self { api, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

fn api_name(api: AutoscalerApi) -> &'static str {
    match api {
        AutoscalerApi::Core => "core",
        AutoscalerApi::Custom => "custom",
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", api_name(self.api), self.namespace, self.name)
    }
}

impl Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
