//! The data of the page, without I/O and without a clock.

mod board;
mod outage;
mod row;
mod rows;
mod series;
mod sources;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    board::{Board, ObservedAutoscaler, Shown, Update},
    outage::{Outage, Unread, seconds},
    row::{Controller, Identity, Row},
    rows::Entry,
    series::{Sample, Series},
    sources::SourceState,
};
