//! The records of the demo: decisions in words, samples of each workload, and whether replicas
//! followed the load.

mod autoscaler_record;
mod decision;
mod records;
mod summary;
mod violations;

pub(crate) use self::{
    autoscaler_record::{AutoscalerRecord, WorkloadSample},
    decision::{Decision, target_id},
    records::DemoRecords,
    summary::Summary,
};

/// A decision about `web` that doesn't scale, for tests.
#[cfg(test)]
pub(crate) fn steady_decision() -> Decision {
    Decision {
        second: 0.0,
        key: hpa_controller::HpaKey::new("default", "web"),
        target: hpa_testbed::workload::WorkloadId::new("default", "Deployment", "web"),
        bounds: bounds(2, 9),
        downscale_window: 300.0,
        from: 2,
        to: None,
        reason: hpa_calc::explain::Reason::Metrics,
        limit: None,
        sentence: "cpu is at 90% of requests, target 60%".to_owned(),
        measurement: None,
        waits_for_forecast: false,
    }
}

/// The bounds of a spec, for tests.
#[cfg(test)]
pub(crate) fn bounds(min: i32, max: i32) -> hpa_calc::settings::Bounds {
    let spec = serde_json::json!({ "minReplicas": min, "maxReplicas": max, "scaleTargetRef": {} });
    hpa_calc::settings::Bounds::of_spec(&serde_json::from_value(spec).expect("a spec"))
}
