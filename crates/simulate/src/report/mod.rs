//! Reports about runs: a table for terminals, charts as SVG, and a page with both.

mod chart;
mod html;
mod lines;
mod plot;
mod table;
#[cfg(test)]
mod tests;

pub use self::{
    chart::{RecordedReplicas, svg},
    html::html,
    lines::{Line, PagePart, Plot, Style, page, plots},
    table::{answer, percent, span, steps, table},
};
use crate::{file::Variant, run::Run};

pub type Result = (Variant, Run);
