//! The records of the demo: decisions in words, samples of each workload, and whether replicas
//! followed the load.

mod dashboard;
mod decision;
mod history;
mod summary;
mod violations;

pub(crate) use hpa_calc::explain::Reason;

#[cfg(test)]
pub(crate) use self::decision::Bounds;
pub(crate) use self::{
    dashboard::Dashboard,
    decision::Decision,
    history::{AutoscalerHistory, WorkloadSample},
    summary::Summary,
};
