use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::even(1.0, true)]
#[case::upper_edge(1.1, true)]
#[case::above(1.1_f64.next_up(), false)]
#[case::lower_edge(0.8, true)]
#[case::below(0.8_f64.next_down(), false)]
#[case::not_a_number(f64::NAN, false)]
#[case::infinite(f64::INFINITY, false)]
fn ratio_is_within_tolerance_at_both_edges(#[case] ratio: f64, #[case] expected: bool) {
    assert_eq!(Tolerances { up: 0.1, down: 0.2 }.contain(ratio), expected);
}

#[rstest]
#[case::none(json!({}), 0.1, 0.1)]
#[case::behavior_without(json!({ "behavior": { "scaleUp": {}, "scaleDown": {} } }), 0.1, 0.1)]
#[case::up(json!({ "behavior": { "scaleUp": { "tolerance": "50m" } } }), 0.05, 0.1)]
#[case::down(json!({ "behavior": { "scaleDown": { "tolerance": "0" } } }), 0.1, 0.0)]
fn behavior_overrides_tolerance(#[case] spec: Value, #[case] up: f64, #[case] down: f64) {
    let spec = serde_json::from_value(spec).unwrap();
    assert_eq!(Tolerances::for_spec(&spec, &Settings::default()), Tolerances { up, down });
}

#[test]
fn time_arithmetic_saturates() {
    let (long, back) = (SignedDuration::MAX, SignedDuration::MIN);
    assert_eq!(after(Timestamp::UNIX_EPOCH, long), Timestamp::MAX);
    assert_eq!(after(Timestamp::UNIX_EPOCH, back), Timestamp::MIN);
    assert_eq!(before(Timestamp::UNIX_EPOCH, long), Timestamp::MIN);
    assert_eq!(before(Timestamp::UNIX_EPOCH, back), Timestamp::MAX);
}
