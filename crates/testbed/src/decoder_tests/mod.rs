//! Test inputs for JSON decoders, and a plain decoder to compare with.
//!
//! A check decodes JSON twice, with the decoder under test and with a [`Document`], and panics if
//! the results differ. [`compare`] calls it with samples, single edits and combinations of edits. A
//! fuzz target calls it with [`fuzz_input`].
//!
//! ```
//! use hpa_testbed::decoder_tests::{Document, compare};
//!
//! #[derive(Default, serde::Deserialize)]
//! #[serde(default)] // Accepts an empty list.
//! struct Replicas {
//!     replicas: Option<i32>,
//! }
//!
//! fn plain(body: &[u8]) -> Result<Option<i32>, serde_json::Error> {
//!     let [replicas] = Document::parse(body)?.struct_fields(["replicas"])?;
//!     replicas.map_or(Ok(None), Document::decode)
//! }
//!
//! compare(&[r#"{ "replicas": 3 }"#], |body| {
//!     let decoded = serde_json::from_slice::<Replicas>(body).map(|it| it.replicas);
//!     if std::str::from_utf8(body).is_ok() {
//!         assert_eq!(decoded.as_ref().ok(), plain(body).as_ref().ok());
//!     }
//!     decoded.is_ok()
//! });
//! ```

// A panic fails the calling test.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::missing_panics_doc, clippy::panic)]

mod compare;
mod document;
mod edit;
mod tree;
mod values;

pub use compare::{compare, fuzz_input};
pub use document::{Document, DocumentResult};
pub use edit::{Edit, Sample};
