//! Whether harmful details of the reference are reproduced.

/// How closely the behavior follows the reference where that can do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// NaN, infinities and values out of range are no values. Names and values in regular
    /// expressions of a query are escaped.
    #[default]
    Off,
    /// Exactly as prometheus-adapter.
    PrometheusAdapter,
}
