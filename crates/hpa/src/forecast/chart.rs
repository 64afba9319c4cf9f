//! Draws the charts of an analysis: the load with its forecast and the capacity of pods, and the
//! replicas.

use std::ops::RangeInclusive;

use hpa_forecast::MeasuredMinute;
use hpa_simulate::{
    report::{Line, LineStyle, Plot, plots},
    workload::seconds::MINUTE,
};

use super::analysis::{Analysis, Runs};

const MINUTES_PER_HOUR: usize = 60;
const WITH_FORECASTS: &str =
    "With forecasts: the load, its forecast, and the capacity of the ready pods";
const WITHOUT_FORECASTS: &str = "Without forecasts, with a lower target for the same pod-hours: \
                                 the load, and the capacity of the ready pods";

/// Draws the last seven days. `None` if nothing was measured.
pub(super) fn draw_last_week(analysis: &Analysis) -> Option<String> {
    let runs = analysis.runs.as_ref()?;
    let (first, last) = (runs.reactive.first()?.minute, runs.reactive.last()?.minute);
    let range = first.max(last.saturating_sub(7 * 24 * MINUTES_PER_HOUR))..=last;
    draw(analysis, runs, &range, "The last 7 days")
}

/// Draws the six hours in which forecasts save the most overload, at equal pod-hours. `None` if
/// nothing was measured.
pub(super) fn draw_best_hours(analysis: &Analysis) -> Option<String> {
    let runs = analysis.runs.as_ref()?;
    let capacity = analysis.pod_capacity()?;
    let is_overloaded = |one: &MeasuredMinute| one.load > f64::from(one.ready) * capacity;
    let saved = |(without, with): (&MeasuredMinute, &MeasuredMinute)| {
        i32::from(is_overloaded(without)) - i32::from(is_overloaded(with))
    };
    let pairs = runs.with_lowered_target.iter().zip(&runs.with_forecasts);
    let saved: Vec<i32> = pairs.map(saved).collect();
    let minutes = 6 * MINUTES_PER_HOUR;
    let first = runs.reactive.get(best_start(&saved, minutes)?)?.minute;
    let range = first..=(first + minutes);
    draw(analysis, runs, &range, "6 hours")
}

/// The start of the window with the largest sum. Windows start every 30 values. A window is
/// complete unless there are fewer values.
fn best_start(saved: &[i32], window: usize) -> Option<usize> {
    let last_start = saved.len().saturating_sub(window);
    let starts = (0..=last_start).step_by(MINUTES_PER_HOUR / 2);
    let sum = |start: usize| -> i32 { saved.iter().skip(start).take(window).sum() };
    // Among equal sums, `max_by_key` returns the last, so the newest hours are drawn.
    starts.max_by_key(|start| sum(*start))
}

/// Draws the minutes of a range. `None` if fewer than two of them were measured.
fn draw(
    analysis: &Analysis,
    runs: &Runs,
    range: &RangeInclusive<usize>,
    period_name: &str,
) -> Option<String> {
    let capacity = analysis.pod_capacity()?;
    let first = *range.start() as f64;
    let is_in_range = |one: &&MeasuredMinute| range.contains(&one.minute);
    let second = |minute: usize| (minute as f64 - first) * MINUTE;
    let points =
        |run: &[MeasuredMinute], value: &dyn Fn(&MeasuredMinute) -> f64| -> Vec<(f64, f64)> {
            run.iter().filter(is_in_range).map(|one| (second(one.minute), value(one))).collect()
        };
    let served = |one: &MeasuredMinute| f64::from(one.ready) * capacity;
    let replicas = |one: &MeasuredMinute| f64::from(one.replicas);
    let line = |name: &str, style, points| Line { name: name.to_owned(), style, points };
    let drawn = runs.with_lowered_target.iter().chain(&runs.with_forecasts).filter(is_in_range);
    let highest = drawn.map(|one| one.load.max(served(one))).fold(0.0, f64::max);
    let plot = |title: &str, run: &[MeasuredMinute]| Plot {
        title: title.to_owned(),
        lines: vec![
            line("load", LineStyle::Load, points(run, &|one| one.load)),
            line("capacity", LineStyle::Capacity, points(run, &served)),
        ],
        min_axis_end: highest,
        load_and_capacity: run
            .iter()
            .filter(is_in_range)
            .map(|one| (second(one.minute), one.load, served(one)))
            .collect(),
    };
    let mut with_forecasts = plot(WITH_FORECASTS, &runs.with_forecasts);
    with_forecasts
        .lines
        .insert(1, line("forecast", LineStyle::Forecast, forecasts(analysis, runs, range)));
    let all = [
        plot(WITHOUT_FORECASTS, &runs.with_lowered_target),
        with_forecasts,
        Plot {
            title: "Replicas with and without forecasts".to_owned(),
            lines: vec![
                line(
                    "with forecasts",
                    LineStyle::Replicas,
                    points(&runs.with_forecasts, &replicas),
                ),
                line("without", LineStyle::Baseline, points(&runs.reactive, &replicas)),
            ],
            min_axis_end: 0.0,
            load_and_capacity: Vec::new(),
        },
    ];
    let mut minutes_in_range = runs.reactive.iter().filter(is_in_range);
    let start = analysis.subject.trace.time(minutes_in_range.next()?.minute);
    let start = start.to_zoned(analysis.settings.zone.clone());
    let end = second(minutes_in_range.next_back()?.minute);
    let name = &analysis.subject.name;
    let description = format!("{period_name} of {name} with and without forecasts");
    Some(plots(&all, &start, end, &description))
}

/// The forecast loads, each at the time that it is a forecast for.
fn forecasts(analysis: &Analysis, runs: &Runs, range: &RangeInclusive<usize>) -> Vec<(f64, f64)> {
    let ahead = analysis.settings.horizon - analysis.subject.workload.delay;
    let ahead = ahead.as_secs_f64() / MINUTE;
    let (first, last) = (*range.start() as f64, *range.end() as f64);
    let points = runs.forecast_loads.iter().enumerate().filter(|(_, load)| !load.is_nan());
    points
        .map(|(minute, load)| (minute as f64 + ahead, f64::from(*load)))
        .filter(|(minute, _)| (first..=last).contains(minute))
        .map(|(minute, load)| ((minute - first) * MINUTE, load))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::newest_window_if_equal(&[0; 1000], 630)]
    #[case::last_minutes(&[&[0; 970][..], &[1; 30]].concat(), 630)]
    #[case::most_saved(&[&[0; 100][..], &[1; 300], &[0; 600]].concat(), 90)]
    #[case::fewer_values(&[1; 100], 0)]
    fn best_window_is_complete(#[case] saved: &[i32], #[case] start: usize) {
        assert_eq!(best_start(saved, 360), Some(start));
    }
}
