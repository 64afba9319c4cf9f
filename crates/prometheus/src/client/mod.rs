//! A client of the Prometheus HTTP API, for queries and the discovery of series.
//!
//! - [`Settings`] configures a server. All options of prometheus-adapter ("the reference"
//!   here) are supported, and basic authentication. Certificates and tokens are read again when
//!   their files change.
//! - [`Client::query`] sends an instant query. Equal concurrent queries share one request.
//! - [`Client::query_range`] sends a range query.
//! - [`Client::read_series`] streams the series of a selector. Memory doesn't depend on their
//!   number.
//!
//! Works with servers that have the API of Prometheus, such as Thanos, `VictoriaMetrics` and Mimir.

mod connection;
mod decode;
mod error;
mod forward;
mod range;
mod requests;
mod series;
mod settings;
mod time;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use connection::ConnectionError;
pub use decode::query_result as decode_query;
pub use error::QueryFailure;
pub use range::{RangeQuery, RangeSeries};
pub use requests::{Client, InstantQuery, TimeoutParameter};
pub use series::SeriesReader;
pub use settings::{Authentication, Settings, SettingsError, Verb, parse_header};

/// Observes requests.
pub trait RequestObserver: Send + Sync {
    /// Called after each request to `path` of the server with this name.
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
