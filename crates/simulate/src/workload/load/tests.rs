#![allow(clippy::float_cmp, reason = "values at boundaries are exact")]

use rstest::rstest;

use super::{Diurnal, Interpolation, Load, Ramp, Repeat, Samples, Seconds, Spike, Step};

fn seconds(number: u32) -> Seconds {
    Seconds::new(f64::from(number))
}

fn ramp() -> Load {
    Load::Ramp(Ramp { from: 10.0, to: 30.0, start: seconds(60), over: seconds(20) })
}

fn spike(rise: u32, hold: u32, fall: u32) -> Load {
    let (rise, hold, fall) = (seconds(rise), seconds(hold), seconds(fall));
    Load::Spike(Spike { peak: 100.0, at: seconds(10), rise, hold, fall })
}

fn steps() -> Load {
    let step = |at, value| Step { at: seconds(at), value };
    Load::Steps(vec![step(5, 1.0), step(10, 7.0)])
}

fn samples(interpolation: Interpolation) -> Load {
    let points = vec![(seconds(10), 4.0), (seconds(20), 8.0)];
    Load::Samples(Samples { points, interpolation, ..Samples::default() })
}

fn diurnal() -> Load {
    Load::Diurnal(Diurnal { low: 10.0, peak: 110.0, period: seconds(100), peak_at: None })
}

#[rstest]
#[case::constant(Load::Constant(5.0), 1e9, 5.0)]
#[case::never_negative(Load::Constant(-5.0), 0.0, 0.0)]
#[case::before_a_ramp(ramp(), 59.0, 10.0)]
#[case::start_of_a_ramp(ramp(), 60.0, 10.0)]
#[case::within_a_ramp(ramp(), 70.0, 20.0)]
#[case::end_of_a_ramp(ramp(), 80.0, 30.0)]
#[case::ramp_without_duration(
    Load::Ramp(Ramp { from: 1.0, to: 2.0, start: seconds(5), over: seconds(0) }),
    5.0,
    2.0
)]
#[case::before_a_spike(spike(10, 10, 10), 9.0, 0.0)]
#[case::rising(spike(10, 10, 10), 15.0, 50.0)]
#[case::peak(spike(10, 10, 10), 20.0, 100.0)]
#[case::start_of_the_fall(spike(10, 10, 10), 30.0, 100.0)]
#[case::falling(spike(10, 10, 10), 35.0, 50.0)]
#[case::after_a_spike(spike(10, 10, 10), 40.0, 0.0)]
#[case::square_begins(spike(0, 5, 0), 10.0, 100.0)]
#[case::square_ends(spike(0, 5, 0), 15.0, 0.0)]
#[case::night(diurnal(), 100.0, 10.0)]
#[case::noon(diurnal(), 50.0, 110.0)]
#[case::before_the_steps(steps(), 4.9, 0.0)]
#[case::first_step(steps(), 5.0, 1.0)]
#[case::second_step(steps(), 10.0, 7.0)]
#[case::before_the_samples(samples(Interpolation::Linear), 0.0, 4.0)]
#[case::at_a_sample(samples(Interpolation::Linear), 10.0, 4.0)]
#[case::between_samples(samples(Interpolation::Linear), 15.0, 6.0)]
#[case::after_a_sample(samples(Interpolation::Step), 19.9, 4.0)]
#[case::after_the_samples(samples(Interpolation::Linear), 90.0, 8.0)]
#[case::sum(Load::Sum(vec![Load::Constant(3.0), steps()]), 10.0, 10.0)]
#[case::repeated(Load::Repeat(Repeat { every: seconds(20), load: Box::new(steps()) }), 30.0, 7.0)]
#[case::restarted(Load::Repeat(Repeat { every: seconds(20), load: Box::new(steps()) }), 40.0, 0.0)]
fn load_is_exact_at_boundaries(#[case] load: Load, #[case] second: f64, #[case] expected: f64) {
    assert_eq!(load.at(second), expected);
}

#[rstest]
#[case::constant(Load::Constant(-5.0), false)]
#[case::ramp(
    Load::Ramp(Ramp { from: 10.0, to: -1.0, start: seconds(0), over: seconds(1) }),
    false
)]
#[case::repeated(
    Load::Repeat(Repeat { every: seconds(20), load: Box::new(Load::Constant(-5.0)) }),
    false
)]
#[case::part_of_a_sum(Load::Sum(vec![Load::Constant(9.0), Load::Constant(-5.0)]), true)]
fn negative_load_is_invalid_except_in_a_sum(#[case] load: Load, #[case] is_valid: bool) {
    assert_eq!(load.validate(seconds(60)).is_ok(), is_valid);
}

#[rstest]
#[case::at_the_end(samples(Interpolation::Step), 10, None)]
#[case::after_the_end(
    samples(Interpolation::Step),
    9,
    Some("start at 10s, but the load ends at 9s")
)]
#[case::repeated(
    Load::Repeat(Repeat { every: seconds(5), load: Box::new(samples(Interpolation::Step)) }),
    60,
    Some("start at 10s, but the load ends at 5s")
)]
fn samples_that_start_after_the_end_are_invalid(
    #[case] load: Load,
    #[case] end: u32,
    #[case] expected: Option<&str>,
) {
    let error = load.validate(seconds(end)).err().map(|error| error.message);
    assert_eq!(error.as_deref(), expected);
}
