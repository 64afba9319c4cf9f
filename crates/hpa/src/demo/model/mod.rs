//! The records of the demo: decisions in words, samples of each workload, and whether replicas
//! followed the load.

mod autoscaler_record;
mod decision;
mod records;
mod summary;
mod violations;

pub(crate) use self::{
    autoscaler_record::{AutoscalerRecord, WorkloadSample},
    decision::Decision,
    records::DemoRecords,
    summary::Summary,
};

/// The bounds of a spec, for tests.
#[cfg(test)]
pub(crate) fn bounds(min: i32, max: i32) -> hpa_calc::settings::Bounds {
    let spec = serde_json::json!({ "minReplicas": min, "maxReplicas": max, "scaleTargetRef": {} });
    hpa_calc::settings::Bounds::of_spec(&serde_json::from_value(spec).expect("a spec"))
}
