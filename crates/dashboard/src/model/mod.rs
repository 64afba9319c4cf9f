//! The data of the page, without I/O and without a clock.

mod board;
mod row;
mod series;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    board::{Board, Entry, ObservedAutoscaler, SourceState, Update},
    row::{Controller, Identity, Row},
    series::{Sample, Series},
};
