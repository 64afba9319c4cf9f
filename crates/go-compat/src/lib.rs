//! Reimplements the parts of Go and its libraries that determine what users' files and environment
//! variables mean.
//!
//! ```text
//!  rules file ──► template (text/template, fmt) ──► queries, labels      hpa-prometheus
//!             ──► yaml (YAML 1.1)               ──► trees with positions hpa-prometheus, hpa lint
//!             ──► regex (regexp, RE2 syntax)    ──► names of metrics     hpa-prometheus
//!  queries    ──► regex                         ──► checked matchers     hpa-prometheus
//!  JSONPath   ──► regex                         ──► filters              hpa-collectors
//!  HTTPS_PROXY, NO_PROXY, proxy-url ──► proxy   ──► direct, or a proxy   every client of a server
//! ```
//!
//! [`Compat`] is the setting with which other crates select whether to reproduce harmful behavior.
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
