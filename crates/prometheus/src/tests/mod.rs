//! Requests against servers in the same process.

mod files;
mod requests;
mod tls;
