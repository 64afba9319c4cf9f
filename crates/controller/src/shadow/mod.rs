//! Shadow mode: deciding beside another controller, writing nothing, and telling where the two differ.
//!
//! The other controller's decision is what it wrote into the status of an autoscaler; ours is made right after, when
//! a watch tells of that status, on what the other one decided on as far as it can be known:
//!
//! - the status before its write, and the spec;
//! - the replicas it says that it found (`status.currentReplicas`), since it may have changed them meanwhile;
//! - pods and metrics as they are now, which is the least possible time later;
//! - how its write of the scale went, as its conditions tell;
//! - a history that is fed by our own recommendations and by the scalings that it did.
//!
//! A status that stays the same for two sync periods is its answer to the present state, and compared so. Until then its
//! recommendation is taken to be renewed once a period, as ours is, though its status does not tell. What is compared: `desiredReplicas`, and status and reason of each condition. A condition `ScaledToZero` that is `False`
//! says the same as none. Not compared: texts, metric values, times.
//!
//! Since both read the world at slightly different moments, a difference counts only where it holds in two comparisons
//! in a row, or in four where the metric values that both read differ as well or a stabilization window had a say, since
//! the times of their recommendations are up to a period apart ([`Verdict`]). And since what the other
//! one recommended before we came is not known, none counts before the longest window and policy period of an
//! autoscaler that is older than us have passed.

mod compare;
mod record;
mod summary;
#[cfg(test)]
mod tests;

use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

pub(crate) use compare::explained;
pub use compare::{Comparison, Difference, compare, differences, found};
pub use record::{Judged, Verdict};
pub(crate) use record::{Look, Record};
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
