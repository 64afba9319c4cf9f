//! The records of the demo: decisions in words, samples of each workload, and whether replicas
//! followed the load.

mod decision;
mod history;
mod records;
mod summary;
mod violations;

pub(crate) use hpa_calc::explain::Reason;

#[cfg(test)]
pub(crate) use self::decision::Bounds;
pub(crate) use self::{
    decision::Decision,
    history::{AutoscalerHistory, WorkloadSample},
    records::DemoRecords,
    summary::Summary,
};
