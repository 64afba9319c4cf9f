//! The failure of the controller's last write of the scale, by the condition that it stored.

use super::{
    error_texts::{FORBIDDEN, NO_RESPONSE_WITHIN, WRITES_WAIT},
    phrases::namespace,
};
use crate::{
    api::{
        ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler,
        HorizontalPodAutoscalerStatus,
    },
    go_text,
    messages::UNABLE_TO_UPDATE_SCALE,
    shell::quote,
};

/// The maximum length of the cause, in characters. The conditions of the report have the whole
/// message.
pub(super) const MAX_CAUSE_LEN: usize = 500;

/// The failure with its cause. `None` if the last write didn't fail, or if the condition has no
/// message.
pub(super) fn sentence(status: &HorizontalPodAutoscalerStatus) -> Option<String> {
    Some(format!("the {}", failure(cause(status)?)))
}

/// The failure with its cause, and what to do about it.
pub(super) fn advice(hpa: &HorizontalPodAutoscaler) -> Option<String> {
    let cause = cause(&hpa.status)?;
    let failure = failure(cause);
    Some(format!("The {}. {}", failure.trim_end_matches('.'), about_cause(hpa, cause)))
}

fn failure(cause: &str) -> String {
    let cause = go_text::truncate(cause.to_owned(), MAX_CAUSE_LEN);
    format!("controller could not write the scale: {cause}")
}

fn cause(status: &HorizontalPodAutoscalerStatus) -> Option<&str> {
    let able = status.condition(&ConditionType::AbleToScale)?;
    let has_failed =
        able.status == ConditionStatus::False && able.reason == ConditionReason::FailedUpdateScale;
    let cause = able.message.strip_prefix(UNABLE_TO_UPDATE_SCALE).unwrap_or(&able.message);
    (has_failed && !cause.is_empty()).then_some(cause)
}

/// The command that prints the admission webhooks with their services or URLs.
const WEBHOOKS: &str = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations \
     -o custom-columns='NAME:.metadata.name,WEBHOOKS:.webhooks[*].name,\
     SERVICES:.webhooks[*].clientConfig.service.name,URLS:.webhooks[*].clientConfig.url'";

fn about_cause(hpa: &HorizontalPodAutoscaler, cause: &str) -> String {
    let target = &hpa.spec.scale_target_ref;
    if let Some(advice) = about_missing_right(cause) {
        return advice;
    }
    if cause.contains("exceeded quota: ") {
        return "Raise the quota in the message, or lower maxReplicas.".to_owned();
    }
    if cause.contains("failed calling webhook ") {
        return format!(
            "The webhook in the message doesn't answer. This command names its configuration, and \
             its service or URL: {WEBHOOKS}"
        );
    }
    // The texts of hpa-rs and of the API server.
    if [NO_RESPONSE_WITHIN, "did not complete within "].iter().any(|text| cause.contains(text)) {
        return format!(
            "An admission webhook may hang. This command names the webhooks: {WEBHOOKS}"
        );
    }
    if cause.contains(WRITES_WAIT) {
        return format!(
            "These writes hang, maybe in an admission webhook for other targets of the namespace. \
             This command names the webhooks: {WEBHOOKS}"
        );
    }
    if cause.contains(" denied the request") || cause.contains(" denied request: ") {
        return format!(
            "An admission webhook or policy refuses these replicas: change {} or the autoscaler to \
             what it permits, or change its rules.",
            target.kind
        );
    }
    // The API server answers with 422.
    if cause.contains(" is invalid: ") {
        return format!(
            "The API server refuses these replicas by the rules for {kind} {}, as the message \
             says: set minReplicas and maxReplicas to what they permit, or change the rules.",
            target.name,
            kind = target.kind
        );
    }
    if cause.contains("the object has been modified") {
        return format!(
            "Another client wrote {kind} {name} at the same time; the controller tries again. If \
             this persists, this command names the clients: kubectl get {} {} \
             --show-managed-fields -o yaml --namespace {}",
            quote(&target.kind),
            quote(&target.name),
            namespace(hpa),
            kind = target.kind,
            name = target.name,
        );
    }
    format!(
        "Check the controller's rights, and the admission webhooks and quotas for {}.",
        target.kind
    )
}

/// Advice about a right that the controller lacks, with the rule of a role that has it. `error` is
/// the message of the API server. `None` for other errors.
pub fn about_missing_right(error: &str) -> Option<String> {
    if !error.contains(FORBIDDEN) {
        return None;
    }
    let rule = missing_rule(error).map(|rule| format!(", with this rule of a role: {rule}"));
    let rule = rule.unwrap_or_default();
    Some(format!("Give the user in the message the right that it lacks{rule}."))
}

/// The rule of a role that permits the request, from the API server's message: `User "ann" cannot
/// update resource "deployments/scale" in API group "apps" …`.
fn missing_rule(cause: &str) -> Option<String> {
    let (_, denied) = cause.split_once(FORBIDDEN)?;
    let (_, denied) = denied.split_once(" cannot ")?;
    let (verb, denied) = denied.split_once(" resource \"")?;
    let (resource, denied) = denied.split_once("\" in API group \"")?;
    let (group, _) = denied.split_once('"')?;
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c));
    [verb, resource, group].into_iter().all(is_name).then(|| {
        format!(r#"{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}"#)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn hpa(cause: &str) -> HorizontalPodAutoscaler {
        let message = format!("{UNABLE_TO_UPDATE_SCALE}{cause}");
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 9,
            },
            "status": { "conditions": [{
                "type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale",
                "message": message,
            }] },
        }))
        .unwrap()
    }

    #[rstest]
    #[case::missing_permission(
        "deployments.apps \"web\" is forbidden: User \"system:serviceaccount:a:hpa\" cannot update \
         resource \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"",
        "Give the user in the message the right that it lacks, with this rule of a role: \
         {apiGroups: [\"apps\"], resources: [\"deployments/scale\"], verbs: [\"update\"]}."
    )]
    #[case::missing_permission_in_other_words(
        "web is forbidden: User \"ann\" may not",
        "Give the user in the message the right that it lacks."
    )]
    #[case::quota(
        "shards.example.com \"web\" is forbidden: exceeded quota: q, requested: n=2, used: n=8",
        "Raise the quota in the message, or lower maxReplicas."
    )]
    #[case::webhook(
        "admission webhook \"w.example.com\" denied the request: no",
        "An admission webhook or policy refuses these replicas"
    )]
    #[case::policy(
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no.",
        "An admission webhook or policy refuses these replicas"
    )]
    #[case::dead_webhook(
        "Internal error occurred: failed calling webhook \"w\": connection refused",
        "The webhook in the message doesn't answer."
    )]
    #[case::no_response(
        "Put \"/apis/apps\": context deadline exceeded: no response within 35s",
        "An admission webhook may hang."
    )]
    #[case::hanging_writes_of_other_targets(
        "not sent within 10s: 16 writes of scales in the namespace wait for responses",
        "These writes hang, maybe in an admission webhook for other targets of the namespace."
    )]
    #[case::invalid(
        "Shard.example.com \"web\" is invalid: spec.replicas: Invalid value: 12: spec.replicas in \
         body should be less than or equal to 10",
        "The API server refuses these replicas by the rules for Deployment web, as the message says"
    )]
    #[case::conflict(
        "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; \
         please apply your changes to the latest version and try again",
        "Another client wrote Deployment web at the same time; the controller tries again. If this \
         persists, this command names the clients: kubectl get Deployment web \
         --show-managed-fields -o yaml --namespace shop"
    )]
    #[case::other("timed out", "Check the controller's rights, and the admission webhooks and")]
    fn advice_has_the_cause_once_and_fits_it(#[case] cause: &str, #[case] step: &str) {
        let advice = advice(&hpa(cause)).unwrap();
        let cause = cause.trim_end_matches('.');
        let start = format!("The controller could not write the scale: {cause}. {step}");
        assert!(advice.starts_with(&start), "{advice}");
    }

    #[test]
    fn root_cause_is_without_the_start_of_the_message() {
        let message = format!("{UNABLE_TO_UPDATE_SCALE}timed out");
        assert_eq!(crate::report::root_cause(&message), "timed out");
    }

    #[test]
    fn cause_is_bounded() {
        let hpa = hpa(&"q".repeat(60_000));
        let cause = format!("{}…", "q".repeat(MAX_CAUSE_LEN));
        let expected = format!("the controller could not write the scale: {cause}");
        assert_eq!(sentence(&hpa.status), Some(expected));
    }
}
