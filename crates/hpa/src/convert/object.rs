//! Converts one object to another API.

use hpa_calc::{
    HorizontalPodAutoscaler,
    api::HorizontalPodAutoscalerSpec,
    crd::{self, FieldError, versions},
    defaults::apply_defaults,
    settings::{SettingPolicy, Settings},
    validation::{ValidationOptions, validate},
};
use hpa_controller::AutoscalerApi;
use hpa_metrics::decode_value;
use serde_json::Value;

use super::{settings, stored_fields::StoredFields};
use crate::{autoscaler_name::describe, lint::invalid_fields, manifests::string_at};

/// Metadata that the API server sets, and rejects or ignores when an object is created.
const SET_BY_SERVER: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// kubectl's copy of the applied manifest, which has the old API version.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Converts an autoscaler, or the autoscalers of a list. Drops what the API server sets in them,
/// even if they already have the version of `to`. Leaves other objects unchanged. Returns the
/// errors as ` (KIND NAMESPACE/NAME): FIELD: REASON`.
pub(super) fn convert(object: &mut Value, to: AutoscalerApi) -> Vec<String> {
    let kind = string_at(object, "/kind").to_owned();
    let is_list = matches!(kind.as_str(), "List" | "HorizontalPodAutoscalerList");
    if let (true, Some(Value::Array(items))) = (is_list, object.get_mut("items")) {
        let errors = items.iter_mut().flat_map(|item| convert(item, to)).collect();
        if kind != "List" {
            set_api_version(object, to);
        }
        return errors;
    }
    if kind != crd::KIND {
        return Vec::new();
    }
    let api_version = string_at(object, "/apiVersion");
    if api_version == to.api_version() {
        drop_server_state(object);
        let name = describe(object);
        let unknown = crd::unknown_fields(object).unwrap_or_default().into_iter();
        return unknown.map(|field| format!(" ({name}): {}: unknown field", field.path)).collect();
    }
    // The object belongs to another API group.
    if !versions::is_known(api_version) {
        return Vec::new();
    }
    let name = describe(object);
    let stored_fields = StoredFields::of(object);
    let mut errors = invalid_settings(object);
    let invalid_settings: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
    errors.extend(versions::to_v2(object));
    set_api_version(object, to);
    match to {
        AutoscalerApi::Core => settings::fields_to_annotations(object),
        AutoscalerApi::Custom => settings::annotations_to_fields(object),
    }
    drop_server_state(object);
    let quoting_failure = crd::quote_fractions(object).err();
    errors.extend(quoting_failure.map(|failure| field_error("spec", failure.to_string())));
    // An invalid setting stays a field. Don't also report that the other API lacks the field.
    let validation_errors = validation_errors(object).into_iter();
    let validation_errors =
        validation_errors.filter(|error| !invalid_settings.contains(&error.field));
    errors.extend(validation_errors.map(|FieldError { field, message }| FieldError {
        field: stored_fields.stored_field(field),
        message,
    }));
    errors.into_iter().map(|error| format!(" ({name}): {error}")).collect()
}

fn set_api_version(object: &mut Value, to: AutoscalerApi) {
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), to.api_version().into());
    }
}

/// Drops the status, the metadata that the API server sets, and kubectl's copy of the manifest. The
/// status has different fields in the two APIs, so it would also fail strict validation.
fn drop_server_state(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let has_empty_annotations = settings::annotations(object).is_some_and(|annotations| {
        annotations.remove(LAST_APPLIED);
        annotations.is_empty()
    });
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if has_empty_annotations {
            metadata.remove("annotations");
        }
        metadata.retain(|name, _| !SET_BY_SERVER.contains(&name.as_str()));
    }
}

/// Errors about the settings in fields of the custom API that have an invalid value.
fn invalid_settings(object: &Value) -> Vec<FieldError> {
    if string_at(object, "/apiVersion") != crd::API_VERSION {
        return Vec::new();
    }
    // Other errors are those of the validation.
    let Ok(hpa) = decode_value::<HorizontalPodAutoscaler>(object.clone()) else {
        return Vec::new();
    };
    let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
    invalid_fields(&resolved.problems)
}

fn field_error(field: &str, message: String) -> FieldError {
    FieldError { field: field.to_owned(), message }
}

/// Decodes the object strictly and validates it, as both APIs do.
fn validation_errors(object: &Value) -> Vec<FieldError> {
    let schema_errors = crd::type_errors(object).and_then(|errors| {
        let unknown = crd::unknown_fields(object)?.into_iter();
        let message = "unknown field: the converted object would lose it";
        let unknown = unknown.map(|field| field_error(&field.path, message.to_owned()));
        Ok(errors.into_iter().chain(unknown).collect::<Vec<_>>())
    });
    match schema_errors {
        Ok(errors) if errors.is_empty() => {}
        Ok(errors) => return errors,
        Err(failure) => return vec![field_error("spec", failure.to_string())],
    }
    let Some(spec) = object.get("spec").filter(|spec| spec.get("scaleTargetRef").is_some()) else {
        let message = "Required value: if this is a patch, convert the result: kustomize build \
                       DIRECTORY | hpa convert -";
        return vec![field_error("spec.scaleTargetRef", message.to_owned())];
    };
    match serde_json::from_value::<HorizontalPodAutoscalerSpec>(spec.clone()) {
        Ok(mut spec) => {
            apply_defaults(&mut spec);
            let causes = validate(&spec, &ValidationOptions::default());
            causes.into_iter().map(|cause| field_error(&cause.field, cause.message)).collect()
        }
        Err(failure) => vec![field_error("spec", failure.to_string())],
    }
}
