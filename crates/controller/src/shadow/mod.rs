//! Shadow mode: compares the decisions of this controller with the decisions of a peer, which is
//! the controller that writes. Pure functions and records; `reconcile` reads the inputs.
//!
//! The peer's decision is the status that it wrote. Ours is made right after, when the watch
//! delivers that status, on the peer's inputs as far as they are known:
//!
//! - the spec, and the status before the peer's write;
//! - the replicas that the peer read (`status.currentReplicas`): it may have scaled since;
//! - pods and metrics as they are now, or as read by one of the two reconciles before. If the peer
//!   scaled, pods and metrics after the scaling are not what it decided on ([`compare_any`]);
//! - the result of the peer's scale write, from its conditions;
//! - a history of our recommendations and of the peer's scalings. If we have not seen the pods and
//!   metrics that the peer decided on, its scaling also counts as our recommendation.
//!
//! If a status is unchanged for two of our reconciles, it counts as the peer's decision on the
//! current replicas, and is compared as such. The peer is assumed to renew its recommendation once
//! a period, as this controller does, although its status doesn't show that. While the status is
//! unchanged, the peer has not decided on newer metric values, so they don't enter our history
//! either.
//!
//! The comparison covers `desiredReplicas`, and the status and reason of the conditions
//! `AbleToScale`, `ScalingActive`, `ScalingLimited` and `ScaledToZero`. A missing condition
//! `ScaledToZero` counts as `False`. Texts, metric values and times are not compared.
//!
//! Both controllers read at slightly different times. Differences therefore count only if one field
//! differs in two comparisons in a row ([`ComparisonResult`]). Four are needed if the metric values
//! that both read also differ, or if a stabilization window or a policy changed a decision, because
//! the times of their recommendations and scale events differ by up to a sync period. A comparison
//! on metric values that none of our reconciles read counts half. If an autoscaler is older than
//! this process, the peer's past recommendations are unknown, so no difference counts until its
//! longest window and policy period have passed.
//!
//! After a scaling of the peer, both may agree again. A scaling that differs is therefore compared
//! once more, on the metric values of the peer's status, and counts at once if no window or policy
//! can be the cause ([`ScalingDifference`]).

mod comparison;
mod record;
mod scaling;
mod summary;
#[cfg(test)]
mod tests;

use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

pub(crate) use comparison::explain_status;
pub use comparison::{
    Comparison, Difference, PeerStatus, compare, compare_any, differences, scale_as_seen_by_peer,
};
pub use record::{ComparisonResult, Evaluation};
pub(crate) use record::{DecisionInputs, Observation, ShadowRecord};
pub use scaling::ScalingDifference;
pub(crate) use scaling::compare_scaling;
pub use summary::{DifferingAutoscaler, ReportedDifference, Summary, UncountedScalings};

/// The error of a write request in dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write requests are not sent in dry run")]
pub struct WriteInDryRun;

/// A client that sends only read requests.
pub fn read_only(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if matches!(*request.method(), http::Method::GET | http::Method::HEAD) {
                return client.send(request).await.map_err(BoxError::from);
            }
            Err(WriteInDryRun.into())
        }
    });
    Client::new(service, namespace)
}
