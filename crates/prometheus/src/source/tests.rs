//! The source against a fake Prometheus.

mod absence;
mod discovery;
mod fake;
mod rules_file;
mod safety;
mod usage;
mod values;

pub(super) use self::fake::{Prometheus, RULES, create_source, prometheus, request, sample};
