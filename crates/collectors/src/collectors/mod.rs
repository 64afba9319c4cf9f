//! One file for each collector. [`crate::registry`] has the table of them.

pub(crate) mod http;
pub(crate) mod influx;
pub(crate) mod nakadi;
pub(crate) mod pods;
pub(crate) mod prometheus;
pub(crate) mod schedule;
pub(crate) mod skipper;
pub(crate) mod sqs;
pub(crate) mod zmon;
