//! A model of what lives in a cluster: workloads whose pods start, get ready, flap, crash and are evicted, load over
//! time, queues, and metrics as they are measured. It runs in a [`Testbed`](crate::Testbed), by a clock that can be
//! virtual.
//!
//! A [`Scenario`](scenario::Scenario) says what there is, a [`Simulation`] lets it live:
//!
//! ```
//! use hpa_testbed::{
//!     Testbed,
//!     workload::{Simulation, clock::SimulatedClock, scenario::Scenario},
//! };
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::parse(
//!     "
//! seed: 7
//! duration: 20m
//! workloads:
//! - name: web
//!   replicas: 2
//!   profile: {cpuRequest: 100m, cpuPerUnit: 1m, capacity: 150, readiness: 10s}
//!   load: {sum: [{constant: 100}, {spike: {peak: 500, at: 5m, rise: 30s, hold: 3m}}]}
//! incidents:
//! - {at: 10m, kind: rollout, workload: web}
//! manifests: []
//! ",
//! )?;
//! // Twenty simulated seconds in a second. In tokio's paused time the speed does not matter.
//! let clock = SimulatedClock::new("2026-01-01T00:00:00Z".parse()?, 20.0);
//! let simulation = Simulation::new(scenario, clock);
//! let testbed = Testbed::new(simulation.config());
//! let running = simulation.start(&testbed)?;
//! let seen = simulation.wait_for(|seen| seen.workloads[0].offered > 500.0).await;
//! assert_eq!((seen.workloads[0].ready, seen.workloads[0].needed), (2, 4));
//! // Two pods serve 300 of the 600: nobody scaled.
//! simulation.clock().sleep(30.0).await;
//! assert_eq!(simulation.observe().workloads[0].served_share(), 0.5);
//! # drop(running);
//! # Ok(())
//! # }
//! ```
//!
//! Whoever builds the server's [`Config`](crate::Config) takes [`Simulation::metrics`] and
//! [`SimulatedClock::as_fn`](clock::SimulatedClock::as_fn) for it, or [`Simulation::config`], which has both. What then
//! wants to know the time of the cluster, such as a controller, has to go by that clock too.
//!
//! # What is simulated
//!
//! The simulation keeps the pods of every Deployment, `ReplicaSet`, `StatefulSet`, `ReplicationController` and custom
//! resource with a scale, those that come later too, with the scenario's default profile and no load
//! ([`Simulation::set_load`] gives one). It takes up what others change once a simulated second, and writes only when
//! something changed: a second in which nothing does costs some microseconds for each pod.
//!
//! Everything that happens by chance comes from the scenario's seed. Two runs are the same as far as whoever else uses the
//! API does the same at the same simulated second; UIDs differ.
//!
//! Load is spread evenly over the ready pods (or as `imbalance` says). What a pod cannot serve is lost; what a queue's pods
//! do not drain waits.
//!
//! # What is not
//!
//! - A Deployment that is scaled during a rollout gets the difference in its new `ReplicaSet`, not in proportion.
//! - Pods without an owner are left alone, and orphans are not adopted.
//! - A pod that a client deletes is gone at once; those that a controller deletes take their time.
//! - Pods do not push each other off a node; `maxPods` is the only limit of the cluster.

pub mod clock;
mod controllers;
pub mod load;
mod model;
mod number;
pub mod profile;
mod random;
pub mod samples;
pub mod scenario;
pub mod seconds;
pub mod series;
mod simulation;

pub use self::{
    model::{Observation, QueueObservation, WorkloadId, WorkloadObservation},
    simulation::{RunningSimulation, Simulation},
};
