//! Compares the parsers of quantities and selectors with naive models, which share no code with
//! them.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

mod quantity;
mod selector;
