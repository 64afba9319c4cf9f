//! Simple forecasting rules to compare with. The autoscaler uses their loads as it uses forecasts.
//! Times are minutes of the trace.

use hpa_forecast::{GateSettings, Trace};

use crate::traces::days;

const WEEK: usize = days(7);
const HOUR: usize = 60;
const BUCKET: usize = 5;

/// The highest load in the hour of the forecast time one week and two weeks before. Cloud providers
/// document such a rule.
pub(crate) fn seasonal_naive(trace: &Trace, settings: &GateSettings) -> Vec<f32> {
    let ahead = minutes(settings.horizon.as_secs());
    let highest = |hour: usize| {
        let loads = (hour * HOUR..(hour + 1) * HOUR).filter_map(|minute| trace.load(minute));
        loads.fold(f64::NAN, f64::max)
    };
    let hours: Vec<f64> = (0..trace.len() / HOUR).map(highest).collect();
    let forecast = |minute: usize| {
        let hour = (minute + ahead) / HOUR;
        let past = [1, 2].map(|weeks| hour.checked_sub(weeks * WEEK / HOUR));
        past.into_iter()
            .flatten()
            .filter_map(|hour| hours.get(hour))
            .copied()
            .fold(f64::NAN, f64::max)
    };
    (0..trace.len()).map(|minute| forecast(minute) as f32).collect()
}

/// Additive exponential smoothing on buckets of five minutes, with a season of a day or a week. The
/// season and the parameters are those with the least error before `training_end`. Forecasts are
/// raised by the 0.8 quantile of these errors.
pub(crate) fn holt_winters(
    trace: &Trace,
    settings: &GateSettings,
    training_end: usize,
) -> Vec<f32> {
    let buckets: Vec<f64> = (0..trace.len() / BUCKET)
        .map(|bucket| {
            let loads: Vec<f64> = (bucket * BUCKET..(bucket + 1) * BUCKET)
                .filter_map(|minute| trace.load(minute))
                .collect();
            loads.iter().sum::<f64>() / loads.len() as f64
        })
        .collect();
    // Counts from the last complete bucket, which ended up to five minutes ago.
    let ahead = (BUCKET + minutes(settings.horizon.as_secs())).div_ceil(BUCKET);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for (period, weights) in parameters() {
        let forecasts = smooth(&buckets, period, weights, ahead);
        let errors = sorted_errors(&buckets, &forecasts, period, training_end / BUCKET);
        let Some(last) = errors.len().checked_sub(1) else { continue };
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        if best.as_ref().is_none_or(|(least, _)| mean < *least) {
            let margin = errors[last * 8 / 10];
            best = Some((mean, forecasts.iter().map(|load| load + margin).collect()));
        }
    }
    let (_, forecasts) = best.unwrap();
    let last_complete_bucket = |minute: usize| (minute / BUCKET).checked_sub(1);
    (0..trace.len())
        .map(|minute| {
            let at = last_complete_bucket(minute).map(|bucket| bucket + ahead);
            let load = at.and_then(|at| forecasts.get(at)).filter(|load| load.is_finite());
            load.map_or(f32::NAN, |load| load.max(0.0) as f32)
        })
        .collect()
}

/// The combinations of a season in buckets and the weights for [`smooth`].
fn parameters() -> impl Iterator<Item = (usize, [f64; 3])> {
    let periods = [days(1) / BUCKET, WEEK / BUCKET].into_iter();
    let levels = periods.flat_map(|period| [0.2, 0.5, 0.8, 0.95].map(|level| (period, level)));
    let trends =
        levels.flat_map(|(period, level)| [0.0, 0.01, 0.1].map(|trend| (period, level, trend)));
    trends.flat_map(|(period, level, trend)| {
        [0.1, 0.3].map(|season| (period, [level, trend, season]))
    })
}

/// The forecast of each bucket, made `ahead` buckets before it. `a`, `b` and `c` are the weights of
/// a new value in the level, the trend and the season.
fn smooth(buckets: &[f64], period: usize, [a, b, c]: [f64; 3], ahead: usize) -> Vec<f64> {
    let mut forecasts = vec![f64::NAN; buckets.len() + ahead];
    let Some(start) = buckets.get(..period) else { return forecasts };
    let known: Vec<f64> = start.iter().copied().filter(|load| load.is_finite()).collect();
    let mut level = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let mut trend = 0.0;
    let mut season: Vec<f64> =
        start.iter().map(|load| if load.is_finite() { load - level } else { 0.0 }).collect();
    for (index, load) in buckets.iter().enumerate().skip(period) {
        let phase = index % period;
        if load.is_finite() {
            let before = level;
            level = a * (load - season[phase]) + (1.0 - a) * (level + trend);
            trend = b * (level - before) + (1.0 - b) * trend;
            season[phase] = c * (load - level) + (1.0 - c) * season[phase];
        }
        let steps = ahead as f64;
        forecasts[index + ahead] = level + trend * steps + season[(index + ahead) % period];
    }
    forecasts
}

/// The sorted errors of the forecasts before the bucket `end`. The first season and the day after
/// it are left out.
fn sorted_errors(buckets: &[f64], forecasts: &[f64], period: usize, end: usize) -> Vec<f64> {
    let start = (period + days(1) / BUCKET).min(end);
    let pairs = buckets[start..end].iter().zip(&forecasts[start..end]);
    let mut errors: Vec<f64> =
        pairs.map(|(load, forecast)| load - forecast).filter(|error| error.is_finite()).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

fn minutes(seconds: i64) -> usize {
    usize::try_from(seconds).unwrap() / 60
}
