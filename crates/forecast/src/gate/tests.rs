use hpa_calc::settings::Tolerances;
use jiff::Timestamp;

use super::*;

const DAY: i64 = 1440;

fn trace(days: i64, load: impl Fn(i64) -> Option<f64>) -> Trace {
    let start: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
    let time = |minute| start + SignedDuration::from_mins(minute);
    Trace::new((0..days * DAY).filter_map(|minute| Some((time(minute), load(minute)?))))
}

/// A load of 20 pods, and of 60 pods for ten hours a day from minute `open` on. Rise and fall take
/// `rise` minutes.
fn load_with_opening_hours(minute: i64, open: i64, rise: i64) -> f64 {
    let minute = (minute - open).rem_euclid(DAY);
    let share = minute.clamp(0, rise).min((600 - minute).clamp(0, rise));
    20.0 + 40.0 * share as f64 / rise as f64
}

/// [`load_with_opening_hours`] from 08:00 to 18:00, with a rise of ten minutes.
#[expect(clippy::unnecessary_wraps, reason = "other loads have gaps")]
fn office(minute: i64) -> Option<f64> {
    Some(load_with_opening_hours(minute, 480, 10))
}

fn settings() -> GateSettings {
    GateSettings::new(Workload::default(), TimeZone::UTC)
}

#[test]
fn steep_mornings_open_the_gate() {
    let decision = decide(&trace(28, office), &settings());
    assert_eq!(decision.reason, ForecastReason::Forecasting, "{decision:?}");
    let comparison = decision.comparison.unwrap();
    assert!(comparison.overload_ratio() < 0.2, "{comparison:?}");
    // At night, two surplus pods are within tolerance and stay.
    assert!(comparison.forecast.pod_hours < comparison.reactive.pod_hours * 1.15);
    assert!(comparison.perfect.overload_minutes <= comparison.forecast.overload_minutes);
    assert_eq!(decide(&trace(28, office), &settings()), decision, "deterministic");
}

#[test]
fn short_rises_open_the_gate_at_any_time_of_day() {
    for (rise, ratio) in [(5, 0.5), (10, 0.1), (20, 0.1)] {
        for open in (480..510).step_by(3) {
            let load = |minute| Some(load_with_opening_hours(minute, open, rise));
            let decision = decide(&trace(28, load), &settings());
            let name = format!("{rise} minutes from minute {open} on: {decision:?}");
            assert_eq!(decision.reason, ForecastReason::Forecasting, "{name}");
            assert!(decision.choice.is_some_and(|choice| choice.skill > 0.1), "{name}");
            assert!(decision.comparison.is_some_and(|it| it.overload_ratio() < ratio), "{name}");
        }
    }
}

/// A step changes the forecasts of only a few minutes, and the history has a slope instead of it.
#[test]
fn daily_step_is_a_season_at_any_minute() {
    let settings = GateSettings { horizon: SignedDuration::from_mins(3), ..settings() };
    for open in 480..485 {
        let load = |minute| Some(load_with_opening_hours(minute, open, 1));
        let decision = decide(&trace(28, load), &settings);
        let start = format!("from minute {open} on");
        assert_ne!(decision.reason, ForecastReason::NoSeason, "{start}: {decision:?}");
    }
}

#[test]
fn weekly_step_is_a_season_at_any_minute() {
    for open in 540..547 {
        let load = |minute: i64| {
            let is_monday = (minute / DAY).rem_euclid(7) == 0;
            Some(if is_monday { load_with_opening_hours(minute, open, 1) } else { 20.0 })
        };
        let decision = decide(&trace(42, load), &settings());
        let start = format!("from minute {open} on");
        assert_ne!(decision.reason, ForecastReason::NoSeason, "{start}: {decision:?}");
    }
}

#[test]
fn skill_of_a_daily_step_does_not_depend_on_the_last_sample() {
    let recorded = trace(29, |minute| Some(load_with_opening_hours(minute, 480, 1)));
    let skill = |missing_minutes| {
        let known = recorded.slice(0..recorded.len() - missing_minutes);
        decide(&known, &settings()).choice.unwrap().skill
    };
    let expected = skill(0);
    for missing_minutes in [1, 700, 1440, 3 * 1440] {
        let skill = skill(missing_minutes);
        assert!((skill - expected).abs() < 0.005, "{missing_minutes}: {skill}, not {expected}");
    }
}

/// Overload is counted in minutes, and samples are a minute apart. Each day has only a few minutes
/// of overload, so the second at which the load rises matters.
#[test]
fn short_rise_opens_the_gate_at_any_second() {
    let workload = Workload { target: 0.06, ..Workload::default() };
    let settings = GateSettings::new(workload, TimeZone::UTC);
    let settings = GateSettings { horizon: SignedDuration::from_secs(135), ..settings };
    for phase in (0..300).step_by(15) {
        let load = |second: i64| {
            let second = second.rem_euclid(86_400) - 28_900;
            let (risen, left) = (second as f64 / 300.0, (36_000 - second) as f64 / 3600.0);
            0.001 * (300.0 + 900.0 * risen.min(left).clamp(0.0, 1.0))
        };
        let start: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let samples = (0..28 * DAY).map(|minute| {
            let at = start + SignedDuration::from_secs(minute * 60 + phase);
            (at, load(at.as_second()))
        });
        let decision = decide(&Trace::new(samples), &settings);
        assert_eq!(decision.reason, ForecastReason::Forecasting, "second {phase}: {decision:?}");
        let text = decision.text();
        let comparison = decision.comparison.unwrap();
        let measure = if comparison.overload_ratio() > 0.8 { "unserved load" } else { "overload" };
        assert!(text.contains(&format!(" % of the {measure} of a run")), "{text} {comparison:?}");
    }
}

#[test]
fn constant_or_never_overloading_load_keeps_the_gate_closed() {
    let decision = decide(&trace(28, |_| Some(50.0)), &settings());
    assert_eq!(decision.reason, ForecastReason::NoSeason);
    let slow =
        |minute: i64| Some(60.0 + 20.0 * (minute as f64 / 1440.0 * std::f64::consts::TAU).sin());
    let decision = decide(&trace(28, slow), &GateSettings { capacity: Some(1.4), ..settings() });
    assert_eq!(decision.reason, ForecastReason::NoBenefit, "never overloaded");
    let text = decision.text();
    assert!(
        text.contains("too little overload to judge forecasts in the past two weeks"),
        "{text}"
    );
}

/// The last value is a bad forecast of noise. A smoothed level and the mean are better, without a
/// season.
#[test]
fn white_noise_is_not_forecastable() {
    for seed in 1..4_u64 {
        // Steele, Lea and Flood: splitmix64, for the same noise on each run.
        let noise = |minute: i64| {
            let mut bits =
                (minute.unsigned_abs() + seed * 1_000_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ (bits >> 31)) >> 40) as f64 / f64::from(1_u32 << 24)
        };
        for samples_apart in [1, 5] {
            let load =
                |minute: i64| (minute % samples_apart == 0).then(|| 50.0 + 40.0 * noise(minute));
            let decision = decide(&trace(28, load), &settings());
            let reason = decision.reason;
            assert_eq!(reason, ForecastReason::NoSeason, "{seed}, {samples_apart}: {decision:?}");
            let noisy_office = |minute: i64| Some(load(minute)? + 5.0 * office(minute)?);
            let decision = decide(&trace(28, noisy_office), &settings());
            let reason = decision.reason;
            assert_ne!(reason, ForecastReason::NoSeason, "{seed}, {samples_apart}: {decision:?}");
        }
    }
}

/// At most the last two weeks are measured, and never the first week, from which forecasts learn.
#[test]
fn text_has_the_number_of_measured_days() {
    let text = |days, load: fn(i64) -> Option<f64>| decide(&trace(days, load), &settings()).text();
    assert!(text(10, office).starts_with("with forecasts, the past 3 days would have had "));
    assert!(text(28, office).starts_with("with forecasts, the past two weeks would have had "));
    let gentle_slopes: fn(i64) -> Option<f64> =
        |minute| Some(load_with_opening_hours(minute, 480, 300));
    let text = text(10, gentle_slopes);
    assert!(text.ends_with(" in the past 3 days"), "{text}");
}

#[test]
fn ten_days_with_few_gaps_are_required() {
    let reason = |trace: &Trace| decide(trace, &settings()).reason;
    assert_eq!(reason(&trace(9, office)), ForecastReason::NotEnoughHistory);
    assert_eq!(reason(&trace(10, office)), ForecastReason::Forecasting);
    // A quarter of each day is missing. At most a fifth may be.
    let recorded = |minute: i64| office(minute).filter(|_| minute % DAY > 360);
    assert_eq!(reason(&trace(28, recorded)), ForecastReason::NotEnoughHistory);
    assert_eq!(reason(&Trace::new([])), ForecastReason::NotEnoughHistory);
}

#[test]
fn forecasts_do_not_depend_on_later_samples() {
    let trace = trace(28, office);
    let settings = settings();
    let first = 14 * 1440;
    let known = trace.slice(0..first + 600);
    let whole = Backtest::new(&trace, &settings, first).forecasts();
    let part = Backtest::new(&known, &settings, first).forecasts();
    let bits = |loads: &[f32]| loads.iter().map(|load| load.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&part[first..]), bits(&whole[first..first + 600]));
}

#[test]
fn tolerance_for_scaling_down_is_applied() {
    let falling = |minute| Some(if minute % DAY < 600 { 60.0 } else { 40.0 });
    let fewest = |down| {
        let workload = Workload { tolerances: Tolerances { up: 0.0, down }, ..Workload::default() };
        let settings = GateSettings::new(workload, TimeZone::UTC);
        let trace = trace(2, falling);
        let backtest = Backtest::new(&trace, &settings, 1440);
        backtest.measured_minutes(1.0, None).iter().map(|minute| minute.replicas).min()
    };
    assert_eq!((fewest(0.1), fewest(0.5)), (Some(40), Some(60)));
}
