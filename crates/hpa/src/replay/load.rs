//! Reads the recorded load of an autoscaler, for `hpa forecast`.

use hpa_calc::HorizontalPodAutoscaler;
use jiff::{SignedDuration, Timestamp};

use super::{
    autoscaler::Autoscaler,
    read::read_past,
    rebuild::{MainLoad, main_load},
};
use crate::args::PastArguments;

/// A recorded load, and its autoscaler.
pub(crate) struct PastLoad {
    /// `namespace/name` of the autoscaler.
    pub(crate) name: String,
    pub(crate) metric: String,
    pub(crate) samples: Vec<(Timestamp, f64)>,
    /// The target for a pod, in the unit of the load.
    pub(crate) target: f64,
    /// The time from a pod's creation until it is ready: `--pod-startup`, or else the recorded
    /// median. `None` if neither is known.
    pub(crate) startup: Option<SignedDuration>,
    pub(crate) hpa: HorizontalPodAutoscaler,
    /// Whether the autoscaler is of the custom API.
    pub(crate) is_custom: bool,
}

/// Reads the autoscaler, and its load from Prometheus.
pub(crate) async fn read_load(arguments: &PastArguments) -> anyhow::Result<PastLoad> {
    let autoscaler = Autoscaler::read(arguments).await?;
    let past = read_past(arguments, &autoscaler).await?;
    let MainLoad { recorded, load, target, .. } = main_load(&past)?;
    let startup = past.startup.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    let metadata = &autoscaler.hpa.metadata;
    Ok(PastLoad {
        name: format!("{}/{}", metadata.namespace, metadata.name),
        metric: recorded.metric.describe(),
        samples: past.window.samples(&load).collect(),
        target,
        startup,
        is_custom: autoscaler.is_custom(),
        hpa: autoscaler.hpa,
    })
}
