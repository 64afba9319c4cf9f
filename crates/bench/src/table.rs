//! Aligned tables, and the formats of numbers in them.

use std::fmt::Write as _;

pub(crate) const MEBI: f64 = 1_048_576.0;

/// The text for a value that is unknown.
pub(crate) fn none() -> String {
    "-".to_owned()
}

/// Returns `None` if no cell has a value.
pub(crate) fn row(name: &str, cells: Vec<Option<String>>) -> Option<Vec<String>> {
    let has_any = cells.iter().any(Option::is_some);
    let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(none)).collect();
    has_any.then(|| [vec![name.to_owned()], cells].concat())
}

/// Formats a time in seconds, milliseconds or microseconds.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds >= 0.9995 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.000_999_5 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MEBI)
}

/// Writes the first column left-aligned and the others right-aligned.
pub(crate) fn write_aligned(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let full = rows.iter().filter(|row| row.len() == columns);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            full.clone().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    for row in rows {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if index == 0 {
                write!(line, "{cell:width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "0 µs")]
    #[case(0.000_25, "250 µs")]
    #[case(0.000_999_6, "1.0 ms")]
    #[case(0.25, "250.0 ms")]
    #[case(0.9996, "1.00 s")]
    #[case(15.0, "15.00 s")]
    fn time_is_formatted_in_a_suitable_unit(#[case] time: f64, #[case] expected: &str) {
        assert_eq!(seconds(time), expected);
    }

    #[test]
    fn row_without_values_is_left_out() {
        assert_eq!(row("a", vec![None, None]), None);
        let known = row("a", vec![None, Some("1".to_owned())]);
        assert_eq!(known, Some(["a", "-", "1"].map(ToOwned::to_owned).to_vec()));
    }

    #[test]
    fn columns_are_aligned_and_headings_do_not_widen_them() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut text = String::new();
        write_aligned(
            &mut text,
            &[row(&["", "a"]), row(&["long", "1"]), row(&["a long heading"]), row(&["b", "100"])],
        );
        assert_eq!(text, "        a\nlong    1\na long heading\nb     100\n");
    }
}
