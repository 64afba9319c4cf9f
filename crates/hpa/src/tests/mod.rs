//! Tests that compare the documentation and the charts with the program.

mod export_tests;
#[cfg(feature = "demo")]
mod reference;
