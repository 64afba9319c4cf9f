//! The Prometheus text format, with Go's number format.

use std::fmt::Write;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

/// The media type of [`Telemetry::render`](super::Telemetry::render).
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Formats the families. Leaves out those without series, as the reference does.
pub(super) fn render(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.get_metric().is_empty()) {
        let (name, help) = (family.name(), escaped(family.help(), false));
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::HISTOGRAM => "histogram",
            _ => "gauge",
        };
        append(&mut text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for metric in family.get_metric() {
            match family.get_field_type() {
                MetricType::COUNTER => {
                    write_series(&mut text, name, metric, None, metric.get_counter().get_value());
                }
                MetricType::HISTOGRAM => write_histogram(&mut text, name, metric),
                _ => write_series(&mut text, name, metric, None, metric.get_gauge().get_value()),
            }
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "the format has floats only")]
fn write_histogram(text: &mut String, name: &str, metric: &Metric) {
    let values = metric.get_histogram();
    let buckets = format!("{name}_bucket");
    for bucket in values.get_bucket() {
        let bound = go_float(bucket.upper_bound());
        write_series(text, &buckets, metric, Some(&bound), bucket.cumulative_count() as f64);
    }
    let count = values.get_sample_count() as f64;
    write_series(text, &buckets, metric, Some("+Inf"), count);
    write_series(text, &format!("{name}_sum"), metric, None, values.get_sample_sum());
    write_series(text, &format!("{name}_count"), metric, None, count);
}

fn write_series(text: &mut String, name: &str, metric: &Metric, bound: Option<&str>, value: f64) {
    text.push_str(name);
    let labels = metric.get_label().iter().map(|label: &LabelPair| (label.name(), label.value()));
    let mut separator = '{';
    for (label, value) in labels.chain(bound.map(|bound| ("le", bound))) {
        append(text, format_args!("{separator}{label}=\"{}\"", escaped(value, true)));
        separator = ',';
    }
    let end = if separator == ',' { "}" } else { "" };
    append(text, format_args!("{end} {}\n", go_float(value)));
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = text.write_fmt(arguments);
}

fn escaped(text: &str, escape_quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if escape_quotes { text.replace('"', "\\\"") } else { text }
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 64)`: the shortest digits that parse to the value,
/// with an exponent of at least two digits below 1e-4 and from 1e6.
fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent @ ..-4) => format!("{digits}e-{:02}", exponent.unsigned_abs()),
        Ok(exponent @ 6..) => format!("{digits}e+{exponent:02}"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (10e-9, "1e-08"),
            (0.000_009_999_999_999_999_999, "9.999999999999999e-06"),
            (16.384, "16.384"),
            (1_234_567.0, "1.234567e+06"),
            (100_000.0, "100000"),
            (1e21, "1e+21"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd", true), "a\\\"b\\\\c\\nd");
        assert_eq!(escaped("a\"b\\c\nd", false), "a\"b\\\\c\\nd");
    }
}
