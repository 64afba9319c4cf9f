//! Reimplements the parts of Go and its libraries that determine what users' files and environment
//! variables mean.
//!
//! ```text
//!  rules file ──► template (text/template, fmt) ──► queries, labels      hpa-prometheus
//!             ──► regex (regexp, RE2 syntax)    ──► names of metrics     hpa-prometheus, jsonpath
//!             ──► yaml (YAML 1.1)               ──► trees with positions hpa-prometheus, hpa lint
//!  HTTPS_PROXY, NO_PROXY, proxy-url ──► proxy   ──► direct, or a proxy   every client of a server
//! ```
//!
//! Other crates use [`Compat`] as the setting whether they also reproduce harmful behavior.
//!
//! Go's durations and quoted texts are in `hpa_calc`.

pub mod proxy;
pub mod regex;
pub mod template;
pub mod yaml;

/// Whether a component reproduces the reference (prometheus-adapter or kube-metrics-adapter) even
/// where its behavior can do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Avoids the harm: for example, values that don't exist or don't fit are errors, and texts in
    /// queries are escaped.
    #[default]
    Off,
    /// Behaves like the reference.
    Reference,
}
