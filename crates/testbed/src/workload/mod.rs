//! A model of what lives in a cluster.

mod backlog;
pub mod clock;
mod lifecycle;
pub mod load;
mod model;
mod number;

pub use self::model::{Observation, QueueObservation, WorkloadId, WorkloadObservation};
pub use self::simulation::{RunningSimulation, Simulation};
pub mod profile;
mod random;
mod rollout;
pub mod samples;
pub mod scenario;
pub mod seconds;
pub mod series;
mod simulation;
