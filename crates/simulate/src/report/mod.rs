//! Reports about runs: a table for terminals, charts as SVG, and a page with both.

mod axes;
mod chart;
mod css;
mod describe;
mod escape;
mod format;
mod html;
mod labels;
mod lines;
mod marks;
mod recorded;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use self::{
    chart::svg,
    format::{percent, span},
    html::html,
    recorded::RecordedReplicas,
    table::{steps, table},
};
use crate::{file::Variant, run::Run};

/// A variant and its run.
pub type Result = (Variant, Run);
