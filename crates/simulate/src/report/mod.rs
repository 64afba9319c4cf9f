//! Reports about runs: a table for terminals, charts as SVG, and a page with both.

mod chart;
mod html;
mod lines;
mod plot;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod times;

pub use self::{
    chart::{RecordedReplicas, svg},
    html::html,
    lines::{Line, PagePart, Plot, Style, page, plots},
    table::{
        answer_sentence, caution, comparison_text, ineffective_settings_sentence, pause_sentence,
        percent, pod_limit_sentence, relative_change, samples_note, scalings_text, six_digits,
    },
    times::format_duration,
};
use crate::{file::Variant, run::Run};

pub type VariantRun = (Variant, Run);
