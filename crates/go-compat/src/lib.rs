//! Reimplements the parts of Go that users' files and environment variables rely on.
//!
//! ```text
//!  rules file ──► template (text/template, fmt) ──► queries, labels      hpa-prometheus
//!             ──► regex (regexp, RE2 syntax)    ──► names of metrics     hpa-prometheus, jsonpath
//!             ──► yaml (YAML 1.1)               ──► trees with positions hpa-prometheus, hpa lint
//!  HTTPS_PROXY, NO_PROXY, proxy-url ──► proxy   ──► direct, or a proxy   every client of a server
//! ```
//!
//! A component's [`Compat`] decides whether it also reproduces harmful details.
//!
//! Go's durations and quoted texts are in `hpa_calc`, which these modules use.

pub mod proxy;
pub mod regex;
pub mod template;
pub mod yaml;

/// Whether a component reproduces the reference (prometheus-adapter or kube-metrics-adapter) even
/// where its behavior can do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Values that don't exist or don't fit are errors, and texts in queries are escaped.
    #[default]
    Off,
    /// Behaves exactly like the reference.
    Reference,
}
