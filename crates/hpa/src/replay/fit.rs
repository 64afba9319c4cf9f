//! Fits a metric as a linear function of the load.

use super::series::Series;

/// The line `base + slope × load`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) base: f64,
    pub(super) slope: f64,
    /// The mean absolute error, as a share of the metric's mean.
    pub(super) error: f64,
}

/// Fits a line by least squares. Base and slope are at least 0, because pods can't have a negative
/// usage and don't use less with more load.
pub(super) fn fit(load: &Series, metric: &Series) -> Line {
    let pairs: Vec<(f64, f64)> = load
        .0
        .iter()
        .zip(&metric.0)
        .filter_map(|(one, other)| Some(((*one)?, (*other)?)))
        .collect();
    let count = pairs.len().max(1) as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
    let (mean_load, mean_metric) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (load, metric) in &pairs {
        covariance += (load - mean_load) * (metric - mean_metric);
        variance += (load - mean_load).powi(2);
    }
    let slope = if variance > 0.0 { (covariance / variance).max(0.0) } else { 0.0 };
    let base = mean_metric - slope * mean_load;
    let (base, slope) = if base >= 0.0 {
        (base, slope)
    } else {
        // The best line through the origin.
        let product_sum: f64 = pairs.iter().map(|(load, metric)| load * metric).sum();
        let square_sum: f64 = pairs.iter().map(|(load, _)| load * load).sum();
        (0.0, if square_sum > 0.0 { (product_sum / square_sum).max(0.0) } else { 0.0 })
    };
    let errors = pairs.iter().map(|(load, metric)| (metric - base - slope * load).abs());
    let error = errors.sum::<f64>() / count;
    let error = if mean_metric > 0.0 { error / mean_metric } else { 0.0 };
    Line { base, slope, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pairs: &[(f64, f64)]) -> Line {
        let series = |part: fn(&(f64, f64)) -> f64| {
            Series(pairs.iter().map(|pair| Some(part(pair))).collect())
        };
        fit(&series(|pair| pair.0), &series(|pair| pair.1))
    }

    #[test]
    fn line_has_base_and_slope() {
        let exact = line(&[(1.0, 12.0), (2.0, 14.0), (5.0, 20.0)]);
        assert!((exact.base - 10.0).abs() < 1e-9 && (exact.slope - 2.0).abs() < 1e-9, "{exact:?}");
        assert!(exact.error < 1e-9);
    }

    #[test]
    fn base_and_slope_are_never_negative() {
        let falling = line(&[(1.0, 3.0), (2.0, 1.0)]);
        assert!((falling.base - 2.0).abs() < 1e-9 && falling.slope.abs() < 1e-9, "{falling:?}");
        assert!((falling.error - 0.5).abs() < 1e-9);
        let steep = line(&[(1.0, 0.0), (2.0, 4.0)]);
        assert!(steep.base.abs() < 1e-9 && (steep.slope - 1.6).abs() < 1e-9, "{steep:?}");
        assert_eq!(line(&[]), Line { base: 0.0, slope: 0.0, error: 0.0 });
    }
}
