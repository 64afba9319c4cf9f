//! What happened: decisions in words, samples of each workload, and whether replicas followed the
//! load.

mod dashboard;
mod decision;
mod history;
mod measurement;
mod sentence;
mod summary;
mod verdict;

#[cfg(test)]
pub(crate) use self::decision::Bounds;
pub(crate) use self::{
    dashboard::Dashboard,
    decision::{Decision, Reason},
    history::{AutoscalerHistory, WorkloadSample},
    summary::Summary,
};
