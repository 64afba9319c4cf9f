//! Checks for fields and values that the API server rejects or drops.

use std::path::Path;

use hpa_calc::crd::{FieldError, UnknownField, versions};
use hpa_calc::{
    HorizontalPodAutoscaler,
    api::HorizontalPodAutoscalerSpec,
    defaults::apply_defaults,
    go_text::truncate,
    settings::{
        MAX_ZONE_LEN, ProblemKind, ResolvedSettings, SETTINGS, SettingPlace, SettingPolicy,
        SettingProblem, Settings,
    },
    shell::quote,
    suggestions::is_similar,
    validation::{ValidationOptions, validate, validate_labels_and_annotations, validate_name},
};
use hpa_controller::k8s::StatusController;
use hpa_metrics::{DecodeError, decode_value};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    lint::{
        finding::Report,
        kustomize_command,
        object::{group, is_autoscaler},
        old_fields::{OldField, old_field, source_of_field},
        workspace::Workspace,
    },
    manifests::{DuplicateKey, Manifest, is_stdin, items, string_at},
};

const UNKNOWN_FIELD_EFFECT: &str =
    "The API server refuses it from kubectl, and drops it from other clients";
/// The maximum number of characters of a value in a message.
const MAX_VALUE_CHARS: usize = 80;
/// The field that controls how a patch is merged.
const PATCH_DIRECTIVE: &str = "$patch";

/// An autoscaler as the API server decodes it.
pub(super) struct DecodedAutoscaler {
    /// Whether kube-controller-manager stored the status last.
    pub(super) is_status_of_kube_controller_manager: bool,
    unknown: Vec<FieldError>,
    /// The known fields that unknown fields probably misspell, and the sources of metrics with
    /// fields of an older version. Errors about these fields are consequences.
    intended_fields: Vec<String>,
    invalid: Vec<FieldError>,
    /// The autoscaler with the API server's defaults. `None` if a value is invalid.
    pub(super) hpa: Option<HorizontalPodAutoscaler>,
    /// The settings, with the controller's default flags. If errors prevent the validation, as in a
    /// patch or with a wrong type, only those of annotations.
    pub(super) resolved: ResolvedSettings,
    /// The settings of the controller that stored the status, with its default flags:
    /// kube-controller-manager ignores those of the autoscaler. `None` if errors prevent the
    /// validation.
    pub(super) acting_settings: Option<Settings>,
}

/// Decodes an autoscaler of any version.
pub(super) fn decode(manifest: &Manifest) -> DecodedAutoscaler {
    let mut object = versions::without_nulls(manifest.object.clone());
    let mut decoded = DecodedAutoscaler {
        is_status_of_kube_controller_manager: StatusController::of_object(
            &object,
            Timestamp::now(),
        )
        .is_kube_controller_manager(),
        unknown: versions::to_v2(&mut object),
        intended_fields: Vec::new(),
        invalid: hpa_calc::crd::type_errors(&object).unwrap_or_default(),
        hpa: None,
        resolved: annotated_settings(&manifest.object),
        acting_settings: None,
    };
    let is_directive = |field: &UnknownField| field.path.ends_with(PATCH_DIRECTIVE);
    let fields = hpa_calc::crd::unknown_fields(&object).unwrap_or_default();
    let kustomize_advice =
        || format!("check the result: {}", kustomize_command(&manifest.file, "hpa lint"));
    if let Some(field) = fields.iter().find(|field| is_directive(field)) {
        let message = format!("this is a patch: {}", kustomize_advice());
        decoded.invalid.push(FieldError { field: field.path.clone(), message });
    } else if object.pointer("/spec/scaleTargetRef").is_none() {
        let message = format!("Required value: if this is a patch, {}", kustomize_advice());
        decoded.invalid.push(FieldError { field: "spec.scaleTargetRef".to_owned(), message });
    }
    decoded.invalid.extend(owner_reference_errors(&object));
    for field in fields.into_iter().filter(|field| !is_directive(field)) {
        let intended = match old_field(&field.path) {
            Some(_) => source_of_field(&field.path).map(str::to_owned),
            None => field.similar_path(),
        };
        decoded.intended_fields.extend(intended);
        let message = unknown_field_message(&field);
        decoded.unknown.push(FieldError { field: field.path, message });
    }
    if decoded.invalid.is_empty() {
        let has_generated_name = object.pointer("/metadata/generateName").is_some();
        match decode_value(object) {
            Ok(hpa) => decoded.validate(hpa, manifest, has_generated_name),
            Err(DecodeError { field, message }) => {
                let field = if field.is_empty() { "spec".to_owned() } else { field };
                decoded.invalid.push(FieldError { field, message });
            }
        }
    }
    decoded
}

/// The settings of the annotations alone.
fn annotated_settings(object: &Value) -> ResolvedSettings {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let texts = annotations.into_iter().flatten();
    let texts = texts.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let mut hpa = HorizontalPodAutoscaler::default();
    hpa.metadata.annotations = texts.collect();
    Settings::default().for_autoscaler(&hpa, &SettingPolicy::default())
}

/// The message about an unknown field. Only an older version or the custom API may have the field.
fn unknown_field_message(field: &UnknownField) -> String {
    if let Some(OldField { version, v2_form }) = old_field(&field.path) {
        return format!("this is a field of {version}. In v2, write {v2_form}");
    }
    let name = field.path.rsplit('.').next().unwrap_or_default();
    match (SETTINGS.iter().find(|setting| setting.field == name), field.similar) {
        (Some(setting), _) => format!(
            "unknown field: only {} has it. In autoscaling/v2, set the annotation {}",
            hpa_calc::crd::API_VERSION,
            setting.annotation()
        ),
        (None, Some(similar)) => {
            format!("unknown field, did you mean {similar}? {UNKNOWN_FIELD_EFFECT}")
        }
        (None, None) => {
            format!("unknown field. {UNKNOWN_FIELD_EFFECT}. Check its spelling and indentation")
        }
    }
}

/// Errors about required fields of owner references that are missing or not strings.
fn owner_reference_errors(object: &Value) -> Vec<FieldError> {
    let owners = items(object.pointer("/metadata/ownerReferences"));
    let errors = owners.enumerate().flat_map(|(index, owner)| {
        ["apiVersion", "kind", "name", "uid"].into_iter().filter_map(move |member| {
            let message = match owner.get(member) {
                Some(Value::String(text)) if !text.is_empty() => return None,
                None | Some(Value::String(_)) => {
                    "Invalid value: \"\": must not be empty".to_owned()
                }
                Some(other) => format!("must be a string, is {other}"),
            };
            let field = format!("metadata.ownerReferences[{index}].{member}");
            Some(FieldError { field, message })
        })
    });
    errors.collect()
}

impl DecodedAutoscaler {
    fn validate(
        &mut self,
        mut hpa: HorizontalPodAutoscaler,
        manifest: &Manifest,
        has_generated_name: bool,
    ) {
        if string_at(&manifest.object, "/apiVersion") == versions::V1 {
            self.invalid.extend(missing_policies(&hpa.spec, &manifest.file));
        }
        apply_defaults(&mut hpa.spec);
        let is_generated = hpa.metadata.name.is_empty() && has_generated_name;
        let name_causes = if is_generated { Vec::new() } else { validate_name(&hpa.metadata.name) };
        let causes = name_causes
            .into_iter()
            .chain(validate_labels_and_annotations(&hpa.metadata))
            .chain(validate(&hpa.spec, &ValidationOptions::default()));
        self.invalid
            .extend(causes.map(|cause| FieldError { field: cause.field, message: cause.message }));
        let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
        if string_at(&manifest.object, "/apiVersion") == hpa_calc::crd::API_VERSION {
            let hpa = with_valid_time_zones(hpa.clone());
            let strict = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
            self.invalid.extend(invalid_fields(&strict.problems));
        }
        self.acting_settings = Some(if self.is_status_of_kube_controller_manager {
            Settings::default().for_kube_controller_manager(&hpa, &SettingPolicy::default())
        } else {
            resolved.settings.clone()
        });
        self.resolved = resolved;
        self.hpa = self.invalid.is_empty().then_some(hpa);
    }
}

/// Errors about rules without policies in the annotation of v1 with `behavior`. The API server sets
/// the defaults of v2 only in v2.
fn missing_policies(
    spec: &HorizontalPodAutoscalerSpec,
    file: &str,
) -> impl Iterator<Item = FieldError> {
    let behavior = spec.behavior.as_ref();
    let up = behavior.and_then(|behavior| behavior.scale_up.as_ref());
    let down = behavior.and_then(|behavior| behavior.scale_down.as_ref());
    let rules = [("scaleUp", up), ("scaleDown", down)].into_iter();
    let incomplete = rules.filter(|(_, rules)| rules.is_some_and(|one| one.policies.is_none()));
    incomplete.map(move |(name, _)| {
        let message = format!(
            "Required value: must specify at least one Policy. {} has no default policies. To add \
             them, {}",
            versions::V1,
            conversion_advice(file)
        );
        FieldError { field: format!("spec.behavior.{name}.policies"), message }
    })
}

/// Replaces the time zones of scheduled bounds by UTC. The API server accepts any name of at most
/// [`MAX_ZONE_LEN`] bytes; the controller ignores a schedule with an unknown zone.
fn with_valid_time_zones(mut hpa: HorizontalPodAutoscaler) -> HorizontalPodAutoscaler {
    let entries = hpa.spec.unknown.get_mut("bounds").and_then(Value::as_array_mut);
    for zone in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("timeZone")) {
        if zone.as_str().is_some_and(|name| name.len() <= MAX_ZONE_LEN) {
            *zone = "UTC".into();
        }
    }
    hpa
}

/// Errors about the settings in fields that have an invalid value.
pub(crate) fn invalid_fields(problems: &[SettingProblem]) -> Vec<FieldError> {
    let invalid = problems.iter().filter_map(|problem| match &problem.place {
        SettingPlace::Field(field) if problem.kind == ProblemKind::InvalidValue => {
            Some(FieldError { field: field.clone(), message: problem.message.clone() })
        }
        _ => None,
    });
    invalid.collect()
}

pub(super) fn invalid(decoded: &DecodedAutoscaler, report: &mut Report<'_>) {
    // If a required field is misspelled, only the misspelling is reported.
    let is_consequence = |error: &FieldError| {
        decoded.intended_fields.iter().any(|intended| {
            let rest = error.field.strip_prefix(intended.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let is_cause = |error: &&FieldError| !is_consequence(error);
    for FieldError { field, message } in decoded.invalid.iter().filter(is_cause) {
        report.add(field, message);
    }
}

pub(super) fn unknown_field(decoded: &DecodedAutoscaler, report: &mut Report<'_>) {
    for FieldError { field, message } in &decoded.unknown {
        report.add(field, message);
    }
}

pub(super) fn removed_version(_: &DecodedAutoscaler, report: &mut Report<'_>) {
    let Manifest { file, object, .. } = report.manifest;
    let api_version = string_at(object, "/apiVersion");
    if let Some(release) = versions::removed_in(api_version) {
        let advice = conversion_advice(file);
        let message = format!("{api_version} was removed in Kubernetes {release}: {advice}");
        report.add("apiVersion", message);
    }
}

/// A clause with the command that converts the autoscalers of a file to the latest version.
fn conversion_advice(file: &str) -> String {
    let command = "hpa convert --to core";
    if is_stdin(Path::new(file)) {
        format!("pipe it through {command}")
    } else {
        format!("run {command} {}", quote(file))
    }
}

pub(super) fn duplicate_key(_: &DecodedAutoscaler, report: &mut Report<'_>) {
    let manifest = report.manifest;
    for DuplicateKey { field, lost_value, position, last_position } in manifest.duplicates() {
        let message = format!(
            "occurs twice: kubectl takes the value in line {} and drops this one: {}",
            last_position.line,
            truncate(lost_value.to_string(), MAX_VALUE_CHARS)
        );
        report.add_at(position, field, message);
    }
}

/// Reports objects that look like autoscalers, but whose kind or version doesn't exist. Ignores
/// other custom resources, which have a dot in their API group.
pub(super) fn unknown_kind(_: &Workspace, manifest: &Manifest, report: &mut Report<'_>) {
    let (kind, api_version) = (manifest.kind(), string_at(&manifest.object, "/apiVersion"));
    let group = group(api_version);
    if is_autoscaler(manifest) || group.contains('.') && group != hpa_calc::crd::GROUP {
        return;
    }
    if kind == hpa_calc::crd::KIND {
        let message = format!("{api_version:?} has no {kind}: use autoscaling/v2");
        report.add("apiVersion", message);
    } else if is_similar(kind, hpa_calc::crd::KIND) || kind.eq_ignore_ascii_case("hpa") {
        let message = format!("there is no kind {kind}: use {}", hpa_calc::crd::KIND);
        report.add("kind", message);
    }
}
