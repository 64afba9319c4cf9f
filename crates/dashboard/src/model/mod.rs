//! The data of the page. No module here does I/O or reads a clock.

mod board;
mod outage;
mod row;
mod rows;
mod series;
mod sources;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    board::Board,
    outage::{Outage, OutageSummary, format_time},
    row::Row,
    rows::Entry,
    series::{Sample, Series},
    sources::SourceState,
    state::{ObservedAutoscaler, Update},
};
