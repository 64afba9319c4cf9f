//! Requests against servers in the same process.

mod files;
mod proxy;
mod requests;
mod series;
mod tls;
