//! The definitions of scaling schedules: the API server accepts them and validates objects by them.

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    discovery::ApiResource,
};
use serde_json::{Value, json};

use crate::install_definition;

pub(crate) async fn check_scaling_schedules(client: &Client) -> Result<()> {
    for definition in hpa_collectors::schedules::definition::schedule_definitions()? {
        install_definition(client, definition.clone()).await?;
        let kind = text(&definition, "/spec/names/kind");
        let resource = ApiResource {
            group: "zalando.org".to_owned(),
            version: "v1".to_owned(),
            api_version: "zalando.org/v1".to_owned(),
            plural: text(&definition, "/spec/names/plural"),
            kind: kind.clone(),
        };
        let api: Api<DynamicObject> = if kind == "ScalingSchedule" {
            Api::namespaced_with(client.clone(), "default", &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        };
        check_schedules(&api, &kind).await.with_context(|| kind)?;
    }
    Ok(())
}

async fn check_schedules(api: &Api<DynamicObject>, kind: &str) -> Result<()> {
    let object = |entry: &Value| {
        let object = json!({
            "apiVersion": "zalando.org/v1", "kind": kind, "metadata": {"name": "evening"},
            "spec": {"scalingWindowDurationMinutes": 5, "schedules": [entry]},
        });
        serde_json::from_value::<DynamicObject>(object)
    };
    let period = |start: &str| {
        json!({
            "type": "Repeating", "value": 100,
            "period": {"startTime": start, "endTime": "02:00", "days": ["Fri"], "timezone": "UTC"},
        })
    };
    for (field, entry) in [
        ("spec.schedules[0].period.startTime", period("25:99")),
        ("spec.schedules[0].type", json!({"type": "Daily", "value": 1})),
        ("spec.schedules[0].value", json!({"type": "OneTime", "date": "2026-11-24T12:00:00Z"})),
        ("spec.schedules[0].date", json!({"type": "OneTime", "date": "tomorrow", "value": 1})),
    ] {
        let created = api.create(&PostParams::default(), &object(&entry)?).await;
        let error = created.err().with_context(|| format!("{entry} is accepted"))?.to_string();
        ensure!(error.contains(field), "the error does not name {field}: {error}");
    }
    let created = api.create(&PostParams::default(), &object(&period("22:00"))?).await?;
    let spec: hpa_collectors::schedules::ScalingScheduleSpec =
        serde_json::from_value(object(&period("22:00"))?.data["spec"].clone())?;
    let stored = serde_json::from_value(created.data["spec"].clone())?;
    ensure!(spec == stored, "fields are lost: {}", created.data);
    let patch = Patch::Merge(json!({"status": {"active": true}}));
    let patched = api.patch_status("evening", &PatchParams::default(), &patch).await?;
    ensure!(patched.data["status"] == json!({"active": true}), "{}", patched.data);
    Ok(())
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
