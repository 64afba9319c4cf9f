//! From the text of a scenario file to variants.

use std::collections::BTreeSet;

use crate::workload::{
    samples::parse_csv,
    scenario::{Scenario, ScenarioError, WorkloadSpec},
};
use hpa_calc::HorizontalPodAutoscaler;
use serde_json::{Map, Value};

use super::{
    BASE, Study, Variant, autoscaler,
    error::{FieldProblem, StudyError},
    position::Positions,
    spec::{Document, VariantSpec},
};

/// Reads a file that a scenario names.
type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The kinds that have `apps/v1` as their API, and are modelled as such.
const BUILT_IN: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"];
/// Members of `workload.spec` that the model sets itself.
const MODELLED: [&str; 4] = ["template", "selector", "replicas", "paused"];

impl Study {
    /// Parses a scenario file. `read` reads the files that it names.
    ///
    /// # Errors
    ///
    /// The text is no YAML, a field is unknown, has the wrong type or an invalid value, or a file
    /// can't be read. The error has line and column.
    pub fn parse(text: &str, read: ReadFile<'_>) -> Result<Self, StudyError> {
        let mut base: Value =
            serde_saphyr::from_str(text).map_err(|error| StudyError::Syntax(Box::new(error)))?;
        let positions = Positions::new(text);
        load_autoscaler(&mut base, read)?;
        let field =
            |problem: FieldProblem, variant: Option<usize>| located(problem, &positions, variant);
        let base_spec =
            VariantSpec { name: BASE.to_owned(), description: String::new(), patch: Value::Null };
        let (first, specs) = variant(&base, &base_spec, read, |problem| field(problem, None))?;
        check_names(&specs).map_err(|problem| field(problem, None))?;
        let (name, description) = (first.cluster.name.clone(), first.cluster.description.clone());
        let mut variants = vec![first];
        for (index, mut spec) in specs.into_iter().enumerate() {
            load_autoscaler(&mut spec.patch, read)?;
            let (next, _) = variant(&base, &spec, read, |problem| field(problem, Some(index)))?;
            variants.push(next);
        }
        Ok(Self { name, description, variants })
    }
}

/// Adds the position. A field of a variant is looked up in its patch first.
fn located(problem: FieldProblem, positions: &Positions, variant: Option<usize>) -> StudyError {
    let FieldProblem { path, message } = problem;
    let in_base = positions.find(&path);
    let patch = variant.map(|index| format!("variants[{index}].patch."));
    let in_patch = patch.and_then(|patch| {
        let (found, position) = positions.find(&format!("{patch}{path}"))?;
        Some((found.checked_sub(patch.len())?, position))
    });
    let position = match (in_base, in_patch) {
        (Some((base, _)), Some((patch, position))) if patch >= base => Some(position),
        (None, Some((_, position))) | (Some((_, position)), _) => Some(position),
        (None, None) => variant
            .and_then(|index| positions.find(&format!("variants[{index}]")))
            .map(|(_, position)| position),
    };
    StudyError::Field { position, path, message }
}

/// Replaces the name of a file by the manifest in it.
fn load_autoscaler(document: &mut Value, read: ReadFile<'_>) -> Result<(), StudyError> {
    let Some(autoscaler) = document.get_mut("autoscaler") else { return Ok(()) };
    let Some(file) = autoscaler.as_str().map(str::to_owned) else { return Ok(()) };
    let text = read(&file).map_err(|message| StudyError::File { file: file.clone(), message })?;
    *autoscaler = serde_saphyr::from_str(&text)
        .map_err(|error| StudyError::File { file, message: error.to_string() })?;
    Ok(())
}

fn check_names(specs: &[VariantSpec]) -> Result<(), FieldProblem> {
    let mut names = BTreeSet::from([BASE]);
    for (index, spec) in specs.iter().enumerate() {
        if !names.insert(&spec.name) {
            let message = format!("{:?} is used already", spec.name);
            return Err(FieldProblem::new(format!("variants[{index}].name"), message));
        }
    }
    Ok(())
}

/// Applies a patch and decodes. Also returns the variants of the file.
fn variant(
    base: &Value,
    spec: &VariantSpec,
    read: ReadFile<'_>,
    field: impl Fn(FieldProblem) -> StudyError,
) -> Result<(Variant, Vec<VariantSpec>), StudyError> {
    let mut document = base.clone();
    if !spec.patch.is_null() {
        json_patch::merge(&mut document, &spec.patch);
    }
    let (mut variant, specs) = complete(document, spec).map_err(&field)?;
    variant.cluster.load_samples(|file| read_samples(file, read))?;
    if let Some(workload) = variant.cluster.workloads.first() {
        variant.workload = workload.clone();
    }
    check(&variant).map_err(&field)?;
    Ok((variant, specs))
}

fn read_samples(
    file: &str,
    read: ReadFile<'_>,
) -> Result<Vec<(crate::workload::seconds::Seconds, f64)>, StudyError> {
    let file = file.to_owned();
    let text = read(&file).map_err(|message| StudyError::File { file: file.clone(), message })?;
    parse_csv(&text).map_err(|source| StudyError::Samples { file, source })
}

/// Decodes a document whose variants are applied.
fn complete(
    mut document: Value,
    spec: &VariantSpec,
) -> Result<(Variant, Vec<VariantSpec>), FieldProblem> {
    let manifest = document.get("autoscaler");
    let manifest = manifest.ok_or_else(|| FieldProblem::new("autoscaler", "is required"))?;
    let hpa = autoscaler::decode(manifest)?;
    set_defaults(&mut document, &hpa);
    let document: Document = serde_path_to_error::deserialize(document)
        .map_err(|error| FieldProblem::new(error.path().to_string(), error.inner()))?;
    let workload = document.workload;
    let cluster = Scenario {
        name: document.name,
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
        name: spec.name.clone(),
        description: spec.description.clone(),
        autoscaler: hpa,
        manifest: document.autoscaler,
        controller: document.controller,
        objective: document.objective,
        cost: document.cost,
        load_unit: document.load_unit,
        workload,
        cluster,
    };
    Ok((variant, document.variants))
}

/// Sets what follows from the autoscaler: the workload is its target, queues are drained by it, and
/// incidents affect it.
fn set_defaults(document: &mut Value, hpa: &HorizontalPodAutoscaler) {
    let target = &hpa.spec.scale_target_ref;
    let Some(document) = document.as_object_mut() else { return };
    let namespace: Value = hpa.metadata.namespace.as_str().into();
    if let Some(workload) = document.get_mut("workload").and_then(Value::as_object_mut) {
        set_default(workload, "name", target.name.as_str());
        set_default(workload, "namespace", namespace.clone());
        set_default(workload, "kind", target.kind.as_str());
        set_default(workload, "replicas", hpa.spec.effective_min_replicas().max(1));
        if !BUILT_IN.contains(&target.kind.as_str()) {
            set_default(workload, "apiVersion", target.api_version.as_str());
        }
    }
    for queue in objects(document, "queues") {
        set_default(queue, "workload", target.name.as_str());
    }
    for incident in objects(document, "incidents") {
        if incident.get("kind").is_none_or(|kind| kind != "metricsOutage") {
            set_default(incident, "workload", target.name.as_str());
        }
    }
    for metric in objects(document, "objectMetrics") {
        if let Some(object) = metric.get_mut("object").and_then(Value::as_object_mut) {
            set_default(object, "namespace", namespace.clone());
        }
    }
}

fn objects<'a>(
    document: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = document.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut)
}

fn set_default(object: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    object.entry(field).or_insert_with(|| value.into());
}

fn check(variant: &Variant) -> Result<(), FieldProblem> {
    let Variant { workload, autoscaler, controller, cost, .. } = variant;
    let target = &autoscaler.spec.scale_target_ref;
    let is = [
        ("name", &workload.name, &target.name),
        ("kind", &workload.kind, &target.kind),
        ("namespace", &workload.namespace, &autoscaler.metadata.namespace),
    ];
    for (field, value, expected) in is {
        if value != expected {
            let message = format!("is {value:?}, but the autoscaler's target has {expected:?}");
            return Err(FieldProblem::new(format!("workload.{field}"), message));
        }
    }
    check_workload_spec(workload)?;
    if controller.sync_period.get() < 1.0 {
        return Err(FieldProblem::new("controller.syncPeriod", "must be at least 1s"));
    }
    if !(controller.tolerance.is_finite() && controller.tolerance >= 0.0) {
        return Err(FieldProblem::new("controller.tolerance", "must not be negative"));
    }
    if !(cost.per_pod_hour.is_finite() && cost.per_pod_hour >= 0.0) {
        return Err(FieldProblem::new("cost.perPodHour", "must not be negative"));
    }
    variant.cluster.validate().map_err(|error| match error {
        ScenarioError::InvalidField { field, source } => {
            FieldProblem::new(field.replacen("workloads[0]", "workload", 1), source)
        }
        error => FieldProblem::new("", error),
    })
}

fn check_workload_spec(workload: &WorkloadSpec) -> Result<(), FieldProblem> {
    let fields = workload.spec.as_ref();
    match MODELLED.iter().find(|name| fields.is_some_and(|fields| fields.contains_key(**name))) {
        Some(name) => {
            let message = "the simulation sets it: use workload.replicas and workload.profile";
            Err(FieldProblem::new(format!("workload.spec.{name}"), message))
        }
        None => Ok(()),
    }
}
