//! Runs an autoscaler on a modelled workload in virtual time.
//!
//! `hpa-calc` makes the decisions, and [`workload`] models the workload, as in the testbed. There
//! is no I/O and no clock: a day takes a fraction of a second, and the same seed results in the
//! same run.
//!
//! - [`workload`]: the model: load, pods, queues, metrics, and the file format of scenarios
//! - `cluster`, `pod_template`, `readings`: the workload controllers of Kubernetes, the pods as the
//!   API returns them, and the metrics APIs
//! - `other_pods`: pods that the target's selector matches, but that belong to other owners
//! - `file`: scenarios with an autoscaler and variants
//! - `forecast`: forecasts, for autoscalers that have them on
//! - `run`, `measure`, `parallel`: a run second by second, its result, and runs on all cores
//! - [`recommend`]: the search for better settings
//! - [`report`]: tables, charts and pages
//!
//! ```
//! let scenario = "
//! seed: 1
//! duration: 20m
//! autoscaler:
//!   metadata: {name: web}
//!   spec:
//!     scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
//!     minReplicas: 2
//!     maxReplicas: 10
//! workload:
//!   profile: {cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100}
//!   load: {steps: [{at: 0, value: 100}, {at: 5m, value: 500}]}
//! ";
//! let no_files = |_: &str| Err("there are no files".to_owned());
//! let scenario_file = hpa_simulate::ScenarioFile::parse(scenario, &no_files)?;
//! let run = scenario_file.variants[0].run();
//! assert_eq!(run.steps.first().map(|step| step.from), Some(2));
//! assert!(run.outcome.replicas.max >= 5);
//! # Ok::<(), hpa_simulate::ScenarioFileError>(())
//! ```

mod cluster;
mod file;
mod forecast;
mod measure;
mod other_pods;
mod parallel;
mod pod_template;
mod readings;
pub mod recommend;
pub mod report;
mod run;
pub mod workload;

pub use self::{
    file::{BASE, ControllerSettings, Cost, Objective, ScenarioFile, Variant, json_schema},
    measure::{Latency, Outcome, Overload, QueueWait, Reaction, Replicas, Rescales},
    other_pods::OtherPods,
    parallel::map_parallel,
    run::{Problem, Reconciles, Run, RunOptions, Scaling, TimelinePoint},
    workload::scenario::{MAX_PODS, ScenarioFileError},
};
