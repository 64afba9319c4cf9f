//! The data of the page. Its modules do no I/O and read no clock.

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
    outage::{FailureKind, Outage, OutageSummary, format_time},
    row::Row,
    rows::Entry,
    series::{Sample, Series},
    sources::SourceState,
    state::{ObservedAutoscaler, Update},
};
