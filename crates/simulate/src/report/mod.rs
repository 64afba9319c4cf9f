//! Reports about runs: a table for terminals, charts as SVG, and a page with both.

mod answer;
mod chart;
mod html;
mod lines;
mod page;
mod plot;
mod recorded;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod times;

pub use self::{
    answer::{
        answer_sentence, caution, ineffective_settings_sentence, pause_sentence,
        pod_limit_sentence, samples_note,
    },
    chart::svg,
    html::html,
    lines::{Line, LineStyle, Plot, plots},
    page::{PagePart, page},
    recorded::RecordedReplicas,
    table::{comparison_text, percent, relative_change, scalings_text, six_digits},
    times::format_duration,
};
use crate::{file::Variant, run::Run};

/// A variant, and its run.
pub type VariantRun = (Variant, Run);
