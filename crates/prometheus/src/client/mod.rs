//! A client of the Prometheus HTTP API, for queries and the discovery of series.
//!
//! - [`Settings`] configures a server. All options of prometheus-adapter are supported, and basic
//!   authentication. Certificates and credentials are read again when their files change, but not
//!   certificate files that a kubeconfig refers to.
//! - [`Client::query`] sends an instant query. Equal concurrent queries share one request.
//! - [`Client::query_range`] sends a range query.
//! - [`Client::read_series`] streams the series of a selector. The memory that it needs doesn't
//!   depend on their number.
//!
//! The client works with servers that have the API of Prometheus, such as Thanos, `VictoriaMetrics`
//! and Mimir.

mod connection;
mod decode;
mod error;
mod forward;
mod outage_log;
mod range;
mod requests;
mod response;
mod series;
mod server_warning;
mod settings;
mod time;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use connection::{ConnectionError, basic_authorization, user_and_password};
pub use decode::decode_instant;
pub use error::{QueryFailure, RuleQueryFailure};
pub use range::{RangeQuery, RangeSeries};
pub use requests::{Client, InstantQuery, TimeoutParameter};
pub use series::SeriesReader;
pub use settings::{Authentication, Settings, SettingsError, Verb, parse_header};

/// Observes requests.
pub trait RequestObserver: Send + Sync {
    /// Called when a request to `path` of the server with this name has ended, even if it failed
    /// before it was sent, but not if it was cancelled. `duration` includes the wait for a slot.
    fn observe(
        &self,
        server: &str,
        path: &'static str,
        duration: Duration,
        failure: Option<&QueryFailure>,
    );
}

impl RequestObserver for () {
    fn observe(&self, _: &str, _: &'static str, _: Duration, _: Option<&QueryFailure>) {}
}
