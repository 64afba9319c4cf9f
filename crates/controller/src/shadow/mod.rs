//! Shadow mode: deciding beside another controller, writing nothing, and telling where the two differ.
//!
//! The other controller's decision is what it wrote into the status of an autoscaler; ours is made right after, when
//! a watch tells of that status, on what the other one decided on as far as it can be known:
//!
//! - the status before its write, and the spec;
//! - the replicas it says that it found (`status.currentReplicas`), since it may have changed them meanwhile;
//! - pods and metrics as they are now, which is the least possible time later, or as one of the two looks before found
//!   them: those of after a scaling are not what the other one scaled on ([`compare_any`]);
//! - how its write of the scale went, as its conditions tell;
//! - a history that is fed by our own recommendations and by the scalings that it did. One on pods and metrics that we
//!   have not seen stands for the recommendation as well.
//!
//! A status that stays the same for two sync periods is its answer to the replicas that there are, and compared so. Its
//! recommendation is taken to be renewed once a period, as ours is, though its status does not tell: while it
//! stays, the other one has not decided on the metric values that have changed since, and neither does our history go on
//! with them. What is compared: `desiredReplicas`, and status and reason of each condition. A condition `ScaledToZero`
//! that is `False` says the same as none. Not compared: texts, metric values, times.
//!
//! Since both read the world at slightly different moments, a difference counts only where it holds in two comparisons
//! in a row, or in four where the metric values that both read differ as well or a stabilization window or a policy had a
//! say, since the times of their recommendations and scalings are up to a period apart ([`Verdict`]). A comparison on metric values
//! that none of our looks has read counts half. And since what the other one recommended before we came is not known, none
//! counts before the longest window and policy period of an autoscaler that is older than us have passed.

mod compare;
mod grounds;
mod record;
mod summary;
#[cfg(test)]
mod tests;

use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

pub(crate) use compare::explained;
pub use compare::{Comparison, Difference, compare, compare_any, differences, found};
pub(crate) use grounds::DecisionInputs;
pub use record::{Evaluation, Verdict};
pub(crate) use record::{Observation, Record};
pub use summary::{Row, Summary};

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is written in a dry run")]
pub struct WritesNothing;

/// A client that sends nothing but reads.
pub fn read_only(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if matches!(*request.method(), http::Method::GET | http::Method::HEAD) {
                return client.send(request).await.map_err(BoxError::from);
            }
            Err(WritesNothing.into())
        }
    });
    Client::new(service, namespace)
}
