//! Reads the controller's events about scalings that another client overwrites. They are evidence
//! for users who can't read its debug API.

use std::collections::BTreeMap;

use hpa_calc::{event::EventReason, report::OverwrittenScalings};
use hpa_controller::{
    AutoscalerApi, HpaKey, cache::overwritten_by_event, debug::AutoscalerActivity,
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::{
    debug_client::Instance,
    kubectl::{self, escape},
    manifests::string_at,
    terminal::warn,
};

/// The number of events after which no further page is read. The events about one autoscaler are
/// few, because the API server counts repetitions in one object, but a tenant can create many.
const MAX_EVENTS: usize = 10_000;

/// The latest activity of the controller, by the names of autoscalers. If the instance can't be
/// read (`None`), or lacks the autoscalers, this is the activity [by events](activities_by_events).
/// `now` is the time by the controller's clock.
pub(crate) async fn latest_activities(
    client: &Client,
    instance: Option<&Instance>,
    namespace: Option<&str>,
    now: Timestamp,
) -> BTreeMap<String, AutoscalerActivity> {
    match instance.filter(|instance| !instance.lacks_overwritten_autoscalers()) {
        Some(instance) => instance.activities(),
        None => activities_by_events(client, namespace, None, now).await,
    }
}

/// The activity that current events show, by the names of autoscalers, in a namespace or in all if
/// it is `None`. With `name`, only that of autoscalers with this name. `now` is the time by the
/// controller's clock, which sets the times of events. Empty if the events can't be listed. Warns
/// if only some of them are read.
pub(crate) async fn activities_by_events(
    client: &Client,
    namespace: Option<&str>,
    name: Option<&str>,
    now: Timestamp,
) -> BTreeMap<String, AutoscalerActivity> {
    let reason = EventReason::ReplicasOverwritten.as_str();
    let name = name.map(|name| format!(",involvedObject.name={name}")).unwrap_or_default();
    let selector = format!("involvedObject.kind=HorizontalPodAutoscaler,reason={reason}{name}");
    let namespace = namespace.map(|namespace| format!("namespaces/{}/", escape(namespace)));
    let path = format!(
        "/api/v1/{}events?fieldSelector={}",
        namespace.unwrap_or_default(),
        escape(&selector)
    );
    let events = kubectl::list_at_most(client, &path, MAX_EVENTS).await;
    let (events, has_more) = events.unwrap_or_default();
    if has_more {
        warn(format!(
            "there are more than {} events {reason}, so overwritten scalings of some autoscalers \
             may be missing",
            events.len()
        ));
    }
    let mut reported: Vec<_> =
        events.iter().filter_map(|event| reported_autoscaler(event, now)).collect();
    // Of several events about an autoscaler, the newest one counts.
    reported.sort_by_key(|(_, scalings)| scalings.seen_at);
    let activities = reported.into_iter().map(|(key, scalings)| {
        let overwritten_scalings = Some(scalings);
        let activity = AutoscalerActivity { overwritten_scalings, ..AutoscalerActivity::default() };
        (key.to_string(), activity)
    });
    activities.collect()
}

/// The autoscaler of an event, and its overwritten scalings. `None` if the event
/// [isn't current](overwritten_by_event), or isn't about an autoscaler of a known API.
fn reported_autoscaler(event: &Value, now: Timestamp) -> Option<(HpaKey, OverwrittenScalings)> {
    let last: Timestamp = string_at(event, "/lastTimestamp").parse().ok()?;
    let version = string_at(event, "/involvedObject/apiVersion");
    let api = AutoscalerApi::from_api_version(version)?;
    let namespace = string_at(event, "/metadata/namespace");
    let name = string_at(event, "/involvedObject/name");
    Some((HpaKey::for_api(api, namespace, name), overwritten_by_event(last, now)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_recent_events_report_an_autoscaler() {
        let now = "2026-01-31T12:00:00Z".parse().expect("a time");
        let reported = |version: &str, time: &str| {
            let event = json!({
                "metadata": { "namespace": "shop", "name": "web.1" },
                "involvedObject": { "apiVersion": version, "name": "web", "namespace": "shop" },
                "lastTimestamp": time,
            });
            let reported = reported_autoscaler(&event, now);
            reported.map(|(key, scalings)| {
                assert_eq!(scalings.seen_at, time.parse().ok());
                key.to_string()
            })
        };
        let (core, custom) = ("autoscaling/v2", "autoscaling.hpa-rs.dev/v2");
        assert_eq!(reported(core, "2026-01-31T11:40:00Z").as_deref(), Some("shop/web"));
        assert_eq!(reported(custom, "2026-01-31T11:40:00Z").as_deref(), Some("rhpa/shop/web"));
        assert_eq!(reported(core, "2026-01-31T11:39:59Z"), None);
        assert!(reported(core, "2026-01-31T12:01:00Z").is_some(), "clocks differ");
        assert_eq!(reported(core, "2026-01-31T12:01:01Z"), None, "forged");
        assert_eq!(reported("keda.sh/v1alpha1", "2026-01-31T11:40:00Z"), None);
        assert_eq!(reported(core, ""), None);
    }
}
