//! Parts of Go's standard library whose rules users' files and variables depend on.
//!
//! ```text
//!  rules file ──► template (text/template, fmt) ──► queries, labels      hpa-prometheus
//!             ──► regex (regexp, RE2 syntax)    ──► names of metrics     hpa-prometheus, jsonpath
//!  HTTPS_PROXY, NO_PROXY, proxy-url ──► proxy   ──► direct, or a proxy   every client of a server
//! ```
//!
//! Durations and quoted texts of Go are in `hpa_calc`, which these modules ask.

pub mod proxy;
pub mod regex;
pub mod template;
