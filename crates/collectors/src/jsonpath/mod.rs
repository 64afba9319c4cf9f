//! Extracts numbers from JSON documents, with the JSONPath dialect and expressions of ajson ("the
//! reference" here), which kube-metrics-adapter uses. Pure functions.
//!
//! [`Extractor`] has a path (`json-key`) or an expression (`json-eval`), and an aggregator for
//! several numbers:
//!
//! ```
//! use hpa_collectors::jsonpath::{Aggregator, Extractor, Query};
//!
//! let query = Query::key("$.queues[?(@.len > 1)].len")?;
//! let extractor = Extractor::new(query, Some(Aggregator::Sum));
//! let document = br#"{"queues": [{"len": 1}, {"len": 5}, {"len": 7}]}"#;
//! assert_eq!(extractor.extract(document)?, 12.0);
//! # Ok::<(), hpa_collectors::jsonpath::ExtractError>(())
//! ```
//!
//! # Bounds
//!
//! Documents and expressions come from tenants. [`Limits`] bounds size and depth of a document and
//! the steps of an evaluation. An input on which the reference panics is an error here.
//!
//! # Compatibility
//!
//! Results are those of the reference, including its peculiarities. [`Compat`] only selects whether
//! a number out of the range of 64-bit floats is read as 0, and whether factorials of numbers above
//! 20 overflow.

mod context;
mod document;
mod error;
mod evaluate;
mod extract;
mod functions;
mod math;
mod operators;
mod quote;
mod scan;
mod syntax;
#[cfg(test)]
mod tests;
mod tokens;
mod value;

pub use context::Limits;
pub use error::{ExtractError, JsonType};
pub use extract::{Aggregator, Extractor, Query, UnknownAggregator};
pub use hpa_go_compat::Compat;
