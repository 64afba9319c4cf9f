//! The scenario file: an autoscaler, a workload, a load, and variants of all of them.

mod spec;
#[cfg(test)]
mod tests;
mod validate;

use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    crd::{FieldError, KIND, UnknownField, unknown_fields},
    defaults::prepare_spec,
    explain::one_line,
    settings::{ResolvedSettings, SettingPolicy},
    validation::{ValidationOptions, validate},
};
use hpa_go_compat::yaml::Positions;
use jiff::Timestamp;
use serde_json::{Map, Value};

pub use self::spec::{ControllerSettings, Cost, Objective, json_schema};
use self::{
    spec::{Document, VariantSpec},
    validate::{check_variants, validate_variant},
};
use crate::{
    other_pods::OtherPods,
    workload::{
        field::field_error,
        load::Load,
        profile::PodProfile,
        scenario::{
            ReadFile, Scenario, ScenarioFileError, WorkloadSpec, built_in_api_version, decode,
            positions, read_yaml,
        },
    },
};

/// The name of the variant without a patch.
pub const BASE: &str = "base";
/// The field with the autoscaler.
const AUTOSCALER: &str = "autoscaler";

/// A parsed scenario file, with its variants to run.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    pub name: String,
    pub description: String,
    /// The base, then the variants of the file in their order.
    pub variants: Vec<Variant>,
}

/// A complete scenario for one run: the base of a scenario file, with the patch of the variant.
#[derive(Clone, Debug)]
pub struct Variant {
    pub name: String,
    pub description: String,
    /// A caution about all results of the scenario.
    pub caution: Option<String>,
    /// With the defaults of the API server.
    pub autoscaler: HorizontalPodAutoscaler,
    /// The autoscaler's manifest as written, without defaults.
    pub manifest: Value,
    /// The calendar time of the start.
    pub start: Timestamp,
    pub controller: ControllerSettings,
    pub objective: Objective,
    pub cost: Cost,
    pub load_unit: String,
    /// The only workload of `scenario`.
    pub workload: WorkloadSpec,
    /// Pods of other owners that the workload's selector matches.
    pub other_pods: Vec<OtherPods>,
    pub scenario: Scenario,
}

impl Variant {
    /// The maximum load that a ready pod serves, in units per second. If the workload only drains
    /// queues, it is the maximum rate at which a pod drains all of them together.
    pub fn pod_capacity(&self) -> f64 {
        let capacity = self.profile().effective_capacity();
        if self.workload.load != Load::default() {
            return capacity;
        }
        let drained: Option<f64> =
            self.scenario.queues.iter().map(|queue| queue.drain_per_pod).sum();
        drained.filter(|drained| *drained > 0.0).map_or(capacity, |drained| capacity.min(drained))
    }

    /// The profile of the workload's pods.
    pub(crate) fn profile(&self) -> &PodProfile {
        self.scenario.profile(&self.workload)
    }

    /// The settings for decisions. The autoscaler may override any of them: a scenario has no
    /// policy that forbids settings.
    pub(crate) fn settings(&self) -> Settings {
        self.resolved_settings().settings
    }

    /// Whether the autoscaler scales: it has neither a pause nor a dry run.
    pub fn may_scale(&self) -> bool {
        self.settings().may_scale()
    }

    /// The settings for decisions, and the problems of those that are ignored or have no effect.
    pub(crate) fn resolved_settings(&self) -> ResolvedSettings {
        let settings = self.controller.decision_settings();
        settings.for_autoscaler(&self.autoscaler, &SettingPolicy::default())
    }

    /// The sync period in seconds: that of the autoscaler or, if it sets none, that of the
    /// controller.
    pub(crate) fn sync_period(&self) -> f64 {
        let autoscaler_period = self.settings().sync_period.map(|period| period.as_secs_f64());
        autoscaler_period.unwrap_or(self.controller.sync_period.get())
    }

    /// Multiplies the load, including that of the past, and the arrivals of queues.
    pub(crate) fn scale_load(&mut self, factor: f64) {
        for workload in self.scenario.workloads.iter_mut().chain([&mut self.workload]) {
            workload.load.scale(factor);
            workload.past.iter_mut().for_each(|past| past.scale(factor));
        }
        self.scenario.queues.iter_mut().for_each(|queue| queue.arrivals.scale(factor));
    }

    /// A copy of the variant with this seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut other = self.clone();
        other.scenario.seed = seed;
        other
    }
}

impl ScenarioFile {
    /// Parses a scenario file. `read` reads the files that it refers to.
    ///
    /// # Errors
    ///
    /// The text can't be read as YAML, a field is unknown, has the wrong type or an invalid value,
    /// or a file can't be read or parsed. The error has line and column in the scenario file if
    /// they are known, except for errors of other files.
    pub fn parse(text: &str, read: ReadFile<'_>) -> Result<Self, ScenarioFileError> {
        let mut base = read_yaml(text)?;
        let positions = positions(text);
        load_autoscaler(&mut base, read)?;
        let in_base = |problem: FieldError| locate(problem, &positions, None);
        let base_spec =
            VariantSpec { name: BASE.to_owned(), description: String::new(), patch: Value::Null };
        let (first, specs) = build_variant(&base, &base_spec, read, in_base)?;
        check_variants(&specs).map_err(in_base)?;
        let (name, description) = (first.scenario.name.clone(), first.scenario.description.clone());
        let mut variants = vec![first];
        for (index, mut spec) in specs.into_iter().enumerate() {
            load_autoscaler(&mut spec.patch, read)?;
            let variant = Some((index, spec.name.as_str()));
            let in_patch = |problem| locate(problem, &positions, variant);
            let (next, _) = build_variant(&base, &spec, read, in_patch)?;
            variants.push(next);
        }
        Ok(Self { name, description, variants })
    }
}

#[cfg(test)]
impl ScenarioFile {
    /// Parses a scenario that refers to no files.
    pub(crate) fn parse_alone(text: &str) -> Result<Self, ScenarioFileError> {
        Self::parse(text, &|_| Err("there are no files".to_owned()))
    }
}

/// Adds the position of the field, or of its closest ancestor in the file. `variant` is the index
/// and the name of the variant with the problem, which the message names. A position in its patch
/// takes precedence over an equally close one in the base.
fn locate(
    problem: FieldError,
    positions: &Positions,
    variant: Option<(usize, &str)>,
) -> ScenarioFileError {
    let field = &problem.field;
    let in_base = positions.closest(field);
    let prefix = variant.map(|(index, _)| format!("variants[{index}].patch."));
    let in_patch = prefix.and_then(|prefix| {
        let (found, position) = positions.closest(&format!("{prefix}{field}"))?;
        Some((found.checked_sub(prefix.len())?, position))
    });
    let position = match (in_base, in_patch) {
        (Some((base, _)), Some((patched, position))) if patched >= base => Some(position),
        (None, Some((_, position))) | (Some((_, position)), _) => Some(position),
        (None, None) => variant
            .and_then(|(index, _)| positions.closest(&format!("variants[{index}]")))
            .map(|(_, position)| position),
    };
    match variant {
        Some((_, name)) => {
            let name = one_line(name);
            ScenarioFileError::new(position, format_args!("variant {name}: {problem}"))
        }
        None => ScenarioFileError::new(position, problem),
    }
}

/// Replaces the file name of an autoscaler by the autoscaler in the file.
fn load_autoscaler(document: &mut Value, read: ReadFile<'_>) -> Result<(), ScenarioFileError> {
    let Some(autoscaler) = document.get_mut(AUTOSCALER) else { return Ok(()) };
    let Some(file) = autoscaler.as_str().map(str::to_owned) else { return Ok(()) };
    let loaded = read(&file).and_then(|text| parse_autoscaler(&text));
    let error = |message: String| ScenarioFileError::new(None, format_args!("{file}: {message}"));
    *autoscaler = loaded.map_err(error)?;
    Ok(())
}

/// Parses the manifest of an autoscaler. Of several documents, exactly one must be an autoscaler.
fn parse_autoscaler(text: &str) -> Result<Value, String> {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let count = documents.len();
    if count > 1 {
        documents.retain(|document| document.get("kind").is_some_and(|kind| kind == KIND));
    }
    <[Value; 1]>::try_from(documents).map(|[manifest]| manifest).map_err(|documents| {
        let autoscalers = documents.len();
        format!(
            "the file has {count} documents with {autoscalers} autoscalers, but must have exactly \
             one autoscaler"
        )
    })
}

/// Applies the patch of a variant to the base, then decodes and validates the result. Also returns
/// the variants that the result lists. `to_error` adds the position of an invalid field.
fn build_variant(
    base: &Value,
    spec: &VariantSpec,
    read: ReadFile<'_>,
    to_error: impl Fn(FieldError) -> ScenarioFileError,
) -> Result<(Variant, Vec<VariantSpec>), ScenarioFileError> {
    let mut document = base.clone();
    if !spec.patch.is_null() {
        json_patch::merge(&mut document, &spec.patch);
    }
    let (mut variant, specs) = decode_variant(document, spec).map_err(&to_error)?;
    variant.scenario.load_samples(read)?;
    // `workload` is a copy, which needs the samples as well.
    if let Some(workload) = variant.scenario.workloads.first() {
        variant.workload = workload.clone();
    }
    validate_variant(&variant).map_err(&to_error)?;
    Ok((variant, specs))
}

/// Decodes a document to which the patch of a variant was applied.
fn decode_variant(
    mut document: Value,
    spec: &VariantSpec,
) -> Result<(Variant, Vec<VariantSpec>), FieldError> {
    let manifest = document.get(AUTOSCALER).ok_or_else(|| missing_autoscaler(&document))?;
    let hpa = decode_autoscaler(manifest)?;
    set_defaults(&mut document, &hpa);
    let document: Document = decode(document)?;
    let workload = document.workload;
    let scenario = Scenario {
        name: one_line(&document.name).into_owned(),
        description: document.description,
        seed: document.seed,
        duration: document.duration,
        warm: document.warm,
        max_pods: document.max_pods,
        workloads: vec![workload.clone()],
        queues: document.queues,
        object_metrics: document.object_metrics,
        external_metrics: document.external_metrics,
        metrics: document.metrics,
        incidents: document.incidents,
        ..Scenario::default()
    };
    let variant = Variant {
        name: one_line(&spec.name).into_owned(),
        description: spec.description.clone(),
        caution: Some(one_line(&document.caution).into_owned()).filter(|text| !text.is_empty()),
        autoscaler: hpa,
        manifest: document.autoscaler,
        start: document.start,
        controller: document.controller,
        objective: document.objective,
        cost: document.cost,
        load_unit: document.load_unit,
        workload,
        other_pods: document.other_pods,
        scenario,
    };
    Ok((variant, document.variants))
}

/// The error if a scenario has no autoscaler. The file may be the autoscaler's own manifest.
fn missing_autoscaler(document: &Value) -> FieldError {
    if document.get("kind").and_then(Value::as_str) == Some(KIND) {
        let message = "this is a HorizontalPodAutoscaler: put it, or the name of its file, under \
                       autoscaler: of a scenario";
        return field_error("kind", message);
    }
    field_error(AUTOSCALER, "is required")
}

/// Sets the defaults that depend on the autoscaler. By default, the workload is the autoscaler's
/// target, drains the queues and is affected by the incidents. The objects of metrics are in the
/// autoscaler's namespace.
fn set_defaults(document: &mut Value, hpa: &HorizontalPodAutoscaler) {
    let target = &hpa.spec.scale_target_ref;
    let Some(document) = document.as_object_mut() else { return };
    let namespace: Value = hpa.metadata.namespace.as_str().into();
    if let Some(workload) = document.get_mut("workload").and_then(Value::as_object_mut) {
        set_default(workload, "name", target.name.as_str());
        set_default(workload, "namespace", namespace.clone());
        set_default(workload, "kind", target.kind.as_str());
        set_default(workload, "replicas", hpa.spec.effective_min_replicas().max(1));
        if built_in_api_version(&target.kind).is_none() {
            set_default(workload, "apiVersion", target.api_version.as_str());
        }
    }
    for queue in objects_in(document, "queues") {
        set_default(queue, "workload", target.name.as_str());
    }
    for incident in objects_in(document, "incidents") {
        if incident.get("kind").is_none_or(|kind| kind != "metricsOutage") {
            set_default(incident, "workload", target.name.as_str());
        }
    }
    for metric in objects_in(document, "objectMetrics") {
        if let Some(object) = metric.get_mut("object").and_then(Value::as_object_mut) {
            set_default(object, "namespace", namespace.clone());
        }
    }
}

/// The objects in the list that a field contains.
fn objects_in<'a>(
    document: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = document.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut)
}

fn set_default(object: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    object.entry(field).or_insert_with(|| value.into());
}

/// Decodes a manifest of an autoscaler, sets a missing name and namespace, applies the defaults of
/// the API server, and validates it.
pub(crate) fn decode_autoscaler(manifest: &Value) -> Result<HorizontalPodAutoscaler, FieldError> {
    if let Some(kind) = manifest.get("kind").and_then(Value::as_str)
        && kind != KIND
    {
        let message = format!("must be {KIND}, not {kind}");
        return Err(field_error(format!("{AUTOSCALER}.kind"), message));
    }
    let unknown = unknown_fields(manifest).map_err(|error| field_error(AUTOSCALER, error))?;
    if let Some(UnknownField { path, similar }) = unknown.first() {
        let hint = similar.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
        let message = format!("unknown field{hint}");
        return Err(field_error(format!("{AUTOSCALER}.{path}"), message));
    }
    let decoded = serde_path_to_error::deserialize(manifest);
    let mut hpa: HorizontalPodAutoscaler = decoded
        .map_err(|error| field_error(format!("{AUTOSCALER}.{}", error.path()), error.inner()))?;
    prepare_spec(&mut hpa.spec);
    if hpa.metadata.name.is_empty() {
        hpa.metadata.name.clone_from(&hpa.spec.scale_target_ref.name);
    }
    if hpa.metadata.namespace.is_empty() {
        "default".clone_into(&mut hpa.metadata.namespace);
    }
    match validate(&hpa.spec, &ValidationOptions::default()).into_iter().next() {
        Some(cause) => Err(field_error(format!("{AUTOSCALER}.{}", cause.field), cause.message)),
        None => Ok(hpa),
    }
}
