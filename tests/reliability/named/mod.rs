//! Faults by name, one test each: with and without them the same becomes of the autoscalers, and
//! nothing is done on the way that must not be.

mod answers;
mod controllers;
mod endings;
mod objects;
mod scenario;
mod servers;
mod watches;
