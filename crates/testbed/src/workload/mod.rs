//! A simulated cluster: workloads whose pods start, become ready, flap, crash and are evicted;
//! load over time; queues; and metrics with measurement errors. The cluster is in a
//! [`Testbed`](crate::Testbed), and its time can be virtual.
//!
//! A [`Scenario`](scenario::Scenario) describes the cluster, a [`Simulation`] runs it:
//!
//! ```
//! use hpa_testbed::{
//!     Testbed,
//!     clock::SimulatedClock,
//!     workload::{Simulation, scenario::Scenario},
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
//! // 20 simulated seconds per second. With tokio's time paused, the speed doesn't matter.
//! let clock = SimulatedClock::new("2026-01-01T00:00:00Z".parse()?, 20.0);
//! let simulation = Simulation::new(scenario, clock);
//! let testbed = Testbed::new(simulation.config());
//! let running = simulation.start(&testbed)?;
//! let observation = simulation.wait_for(|now| now.workloads[0].offered > 500.0).await;
//! let web = &observation.workloads[0];
//! assert_eq!((web.ready, web.needed), (2, 4));
//! // The two pods serve 300 of the 600, because there is no autoscaler.
//! simulation.clock().sleep(30.0).await;
//! assert_eq!(simulation.observe().workloads[0].served, 300.0);
//! # drop(running);
//! # Ok(())
//! # }
//! ```
//!
//! The testbed's [`Config`](crate::Config) needs [`Simulation::metrics`] and
//! [`SimulatedClock::as_fn`](crate::clock::SimulatedClock::as_fn). [`Simulation::config`] sets
//! both. Everything else that depends on the cluster's time, such as a controller, must use the
//! same clock.
//!
//! # Scope
//!
//! The simulation creates the pods of all Deployments, `ReplicaSet`s, `StatefulSet`s,
//! `ReplicationController`s and namespaced custom resources with a scale subresource. Workloads
//! that aren't part of the scenario have the default profile and no load.
//!
//! Changes by clients are processed once per simulated second. A second without changes costs a
//! few microseconds per pod and writes nothing.
//!
//! All random numbers of the simulation depend on the scenario's seed. Two runs are equal, except
//! for UIDs, if the API's clients do the same in the same simulated seconds.
//!
//! Load is distributed over the ready pods: evenly, or unevenly with `imbalance`. Load beyond the
//! capacity is lost, while work in queues waits.
//!
//! # Limits
//!
//! - A Deployment that is scaled during a rollout changes only its new `ReplicaSet`, instead of
//!   all `ReplicaSet`s in proportion.
//! - Pods without an owner don't change, and no controller adopts them.
//! - A pod that a client deletes is gone at once. Only pods that a simulated controller deletes
//!   terminate gracefully.
//! - Nodes have no capacity and there is no preemption. Only `maxPods` limits the scheduled pods.
//! - A workload gets at most [`MAX_PODS`](hpa_simulate::MAX_PODS) pods, even if it has more
//!   replicas.

mod controllers;
mod simulation;

pub use hpa_simulate::workload::{
    load, model,
    model::{Backlog, Observation, QueueObservation, Totals, WorkloadId, WorkloadObservation},
    profile, scenario, seconds, series,
};

pub use self::simulation::{RunningSimulation, Simulation};
