//! Numbers as people read them.

use hpa_calc::explain::number;

use crate::file::Cost;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// A duration with its two largest units: `45s`, `3m20s`, `2h5m`, `1d3h`.
pub fn span(seconds: f64) -> String {
    let seconds = seconds.round();
    let (large, unit, small, small_unit) = match seconds {
        _ if seconds < MINUTE => return format!("{seconds}s"),
        _ if seconds < HOUR => (MINUTE, "m", 1.0, "s"),
        _ if seconds < DAY => (HOUR, "h", MINUTE, "m"),
        _ => (DAY, "d", HOUR, "h"),
    };
    let rest = (seconds % large / small).floor();
    let rest = if rest > 0.0 { format!("{rest}{small_unit}") } else { String::new() };
    format!("{}{unit}{rest}", (seconds / large).floor())
}

/// A share in percent with three significant digits.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.01 {
        return "<0.01 %".to_owned();
    }
    format!("{} %", number(percent))
}

/// How much a value differs from another one, in percent with a sign.
pub(super) fn change(value: f64, base: f64) -> Option<String> {
    if base <= 0.0 {
        return None;
    }
    let change = (value / base - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    Some(if change.abs() < 0.05 {
        "±0 %".to_owned()
    } else {
        format!("{sign}{} %", number(change.abs()))
    })
}

pub(super) fn money(amount: f64, cost: &Cost) -> String {
    format!("{}{amount:.2}", cost.currency)
}

/// A time of a run: `0:05:00`, and with days from the second day on.
pub(super) fn clock(second: f64) -> String {
    let (days, rest) = ((second / DAY).floor(), second % DAY);
    let (hours, minutes) = ((rest / HOUR).floor(), (rest % HOUR / MINUTE).floor());
    let seconds = (rest % MINUTE).floor();
    let day = if days > 0.0 { format!("{days}d ") } else { String::new() };
    format!("{day}{hours}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "0s")]
    #[case(59.6, "1m")]
    #[case(200.0, "3m20s")]
    #[case(7500.0, "2h5m")]
    #[case(97_200.0, "1d3h")]
    fn span_has_two_units(#[case] seconds: f64, #[case] text: &str) {
        assert_eq!(span(seconds), text);
    }

    #[rstest]
    #[case(90.0, 100.0, Some("−10 %"))]
    #[case(150.0, 100.0, Some("+50 %"))]
    #[case(100.0, 100.0, Some("±0 %"))]
    #[case(1.0, 0.0, None)]
    fn change_has_a_sign(#[case] value: f64, #[case] base: f64, #[case] text: Option<&str>) {
        assert_eq!(change(value, base).as_deref(), text);
    }

    #[test]
    fn clock_has_days_if_needed() {
        assert_eq!(clock(3661.4), "1:01:01");
        assert_eq!(clock(90_000.0), "1d 1:00:00");
    }

    #[test]
    fn small_shares_are_not_rounded_to_zero() {
        assert_eq!(
            [percent(0.0), percent(0.000_01), percent(0.1234)],
            ["0 %", "<0.01 %", "12.3 %"]
        );
    }
}
