//! Reports about runs: a table for terminals, charts as SVG, and a page with both.

mod chart;
mod css;
mod format;
mod html;
mod series;
mod table;

pub use self::{
    chart::svg,
    format::{percent, span},
    html::html,
    table::{steps, table},
};
use crate::{file::Variant, run::Run};

/// A variant and its run.
pub type Result = (Variant, Run);
