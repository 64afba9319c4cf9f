//! The collectors, one per file. Their table is in [`crate::registry`].

pub(crate) mod http;
pub(crate) mod influx;
pub(crate) mod nakadi;
pub(crate) mod pods;
pub(crate) mod prometheus;
pub(crate) mod schedule;
pub(crate) mod skipper;
pub(crate) mod sqs;
pub(crate) mod zmon;
