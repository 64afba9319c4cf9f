//! Faults as JSON.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Match};
use rstest::rstest;
use serde_json::{Value, json};

#[test]
fn all_fields_are_deserialized() {
    let deserialized = Fault::from_json(&json!({
        "match": {
            "clients": ["controller"], "groups": ["apps"], "verbs": ["update", "patch"],
            "resources": ["deployments"], "subresources": ["scale"], "namespaces": ["shop"],
            "names": ["web"],
        },
        "probability": 0.5, "nth": 1, "every": 2, "first": 3, "from": "2m", "until": "3m30s",
        "effect": { "tooManyRequests": { "retryAfterSeconds": 5 } },
    }));
    let matching = Match::verbs(["update", "patch"])
        .client("controller")
        .group("apps")
        .resource("deployments")
        .subresource("scale")
        .namespace("shop")
        .name("web");
    let fault = Fault::on(matching)
        .probability(0.5)
        .nth(1)
        .every(2)
        .first(3)
        .from(Duration::from_secs(120))
        .until(Duration::from_secs(210))
        .effect(Effect::TooManyRequests { retry_after_seconds: Some(5) });
    assert_eq!(deserialized, Ok(fault));
}

#[rstest]
#[case(json!("conflict"), Effect::Conflict)]
#[case(json!("expired"), Effect::Expired)]
#[case(json!({ "tooManyRequests": {} }), Effect::TooManyRequests { retry_after_seconds: None })]
#[case(json!("internalError"), Effect::InternalError)]
#[case(json!("serviceUnavailable"), Effect::ServiceUnavailable)]
#[case(json!("timeout"), Effect::Timeout)]
#[case(
    json!({ "status": { "code": 409, "reason": "AlreadyExists" } }),
    Effect::status(409, "AlreadyExists", "")
)]
#[case(json!({ "html": { "code": 502 } }), Effect::Html { code: 502 })]
#[case(json!({ "disconnect": {} }), Effect::Disconnect { applied: false })]
#[case(json!("lostResponse"), Effect::LostResponse)]
#[case::old_name(json!("lostAnswer"), Effect::LostResponse)]
#[case(json!({ "slow": { "by": "1500ms" } }), Effect::Slow { by: Duration::from_millis(1500) })]
#[case(json!("stall"), Effect::Stall)]
#[case(json!({ "dropWatch": { "after": 2 } }), Effect::DropWatch { after: 2 })]
#[case(json!({ "truncatedEvent": {} }), Effect::TruncatedEvent { after: 0 })]
#[case::old_name(json!({ "halfEvent": {} }), Effect::TruncatedEvent { after: 0 })]
#[case(json!({ "silentWatch": {} }), Effect::SilentWatch { after: 0 })]
#[case(
    json!({ "changedField": { "object": "web", "pointer": "/metadata" } }),
    Effect::ChangedField { object: "web".into(), pointer: "/metadata".into(), value: Value::Null }
)]
#[case::old_name(
    json!({ "malformed": { "pointer": "/spec" } }),
    Effect::ChangedField { object: String::new(), pointer: "/spec".into(), value: Value::Null }
)]
#[case(json!("truncatedBody"), Effect::TruncatedBody)]
#[case::old_name(json!("halfBody"), Effect::TruncatedBody)]
#[case(
    json!({ "missingGroup": { "group": "metrics.k8s.io" } }),
    Effect::MissingGroup { group: "metrics.k8s.io".into() }
)]
#[case(json!({ "stale": { "revisions": 3 } }), Effect::Stale { revisions: 3 })]
fn effect_is_deserialized(#[case] data: Value, #[case] effect: Effect) {
    assert_eq!(
        Fault::from_json(&json!({ "effect": data })),
        Ok(Fault::on(Match::any()).effect(effect))
    );
}

#[rstest]
#[case(json!({}), "fault: missing field `effect`")]
#[case(json!({ "effect": "stall", "prob": 1 }), "fault.prob: unknown field `prob`")]
#[case(
    json!({ "effect": "stall", "match": { "verb": [] } }),
    "fault.match.verb: unknown field `verb`"
)]
#[case(
    json!({ "effect": "stall", "match": { "verbs": "get" } }),
    "fault.match.verbs: invalid type"
)]
#[case(json!({ "effect": "sleep" }), "fault.effect: unknown variant `sleep`")]
#[case(json!({ "effect": { "slow": { "by": "5 bananas" } } }), "fault.effect.slow.by: ")]
#[case(json!({ "effect": { "slow": { "to": "5s" } } }), "fault.effect.slow.to: unknown field `to`")]
#[case(json!({ "effect": "stall", "from": "soon" }), "fault.from: ")]
#[case(json!({ "effect": "stall", "probability": 2 }), "fault: probability: 2 is not from 0 to 1")]
#[case(json!({ "effect": "stall", "nth": 0 }), "fault: nth: must be 1 or more")]
#[case(json!({ "effect": "stall", "nth": -1 }), "fault.nth: invalid value")]
#[case(
    json!({ "effect": "stall", "from": "2m", "until": "1m" }),
    "fault: until: must be later than from"
)]
fn invalid_fault_is_rejected_with_its_path(#[case] data: Value, #[case] start: &str) {
    let error = Fault::from_json(&data).unwrap_err().to_string();
    assert!(error.starts_with(start), "{error}");
}
