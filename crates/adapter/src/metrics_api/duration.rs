//! Durations as Go prints them.

use std::{fmt, time::Duration};

/// A duration in Go's form: `3m0s`, `1h0m0s`, `1.5s`, `250ms`, `0s`.
pub(crate) struct GoDuration(pub(crate) Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, name) = match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, fraction) = (nanos / unit, nanos % unit);
        let (hours, minutes, whole) =
            if name == "s" { (whole / 3600, whole / 60 % 60, whole % 60) } else { (0, 0, whole) };
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{whole}")?;
        if fraction > 0 {
            let width = unit.ilog10() as usize;
            write!(f, ".{}", format!("{fraction:0width$}").trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0s")]
    #[case(5, "5ns")]
    #[case(1_500, "1.5µs")]
    #[case(250_000_000, "250ms")]
    #[case(1_050_000_000, "1.05s")]
    #[case(180_000_000_000, "3m0s")]
    #[case(3_600_000_000_000, "1h0m0s")]
    #[case(90_061_000_000_000, "25h1m1s")]
    fn durations_print_as_in_go(#[case] nanos: u64, #[case] text: &str) {
        assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
    }
}
