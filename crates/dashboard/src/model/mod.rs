//! What the page shows, without I/O and without a clock.

mod board;
mod identity;
mod row;
mod series;
#[cfg(test)]
mod tests;
mod unit;

pub(crate) use self::{
    board::{Board, Entry, Observed, SourceState, Update},
    identity::Identity,
    row::{Controller, Row},
    series::{Sample, Series},
};
