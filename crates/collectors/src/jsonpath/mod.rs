//! Extracts numbers from JSON documents, with JSONPath and expressions. The dialect is that of
//! ajson, the library that kube-metrics-adapter uses. It does no I/O.
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
//! Documents and expressions come from tenants. [`Limits`] bounds the size and the depth of a
//! document, and the steps, memory and time of an evaluation. An input on which ajson panics is an
//! error here.
//!
//! # Compatibility
//!
//! Results are those of ajson, including its peculiarities, but random numbers are refused.
//! [`Compat`] selects two details: whether a number out of the range of 64-bit floats is an error
//! or 0, and whether the factorial of a number above 20 is an error or overflows.

mod budget;
mod document;
mod error;
mod evaluate;
mod extract;
mod functions;
mod math;
mod operands;
mod operators;
mod quote;
mod scan;
mod syntax;
#[cfg(test)]
mod tests;
mod tokens;
mod value;

pub use budget::Limits;
pub use error::ExtractError;
pub use extract::{Aggregator, Extractor, Query};
pub use hpa_go_compat::Compat;
