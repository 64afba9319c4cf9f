//! Named faults, one test each. A test compares a run with the fault to a run without it: replicas
//! and statuses must be equal soon after the fault, and the invariants must hold throughout.

mod controllers;
mod lasting_faults;
mod objects;
mod responses;
mod scenario;
mod servers;
mod watches;
