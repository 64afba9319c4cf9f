//! Reads samples in the text format of Prometheus.

/// A sample in the text format of Prometheus.
pub(crate) struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    pub(crate) value: f64,
}

impl<'a> Sample<'a> {
    /// Returns the value of a label, with its escapes. A missing label counts as empty.
    pub(crate) fn label(&self, name: &str) -> &'a str {
        let mut rest = self.labels;
        while let Some((label, after)) = rest.split_once("=\"") {
            let Some(end) = end_of_value(after) else { return "" };
            let (value, after) = after.split_at(end);
            if label.trim_matches([',', ' ']) == name {
                return value;
            }
            rest = after.strip_prefix('"').unwrap_or_default();
        }
        ""
    }
}

/// Returns the position of the quotation mark that ends a label value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.find(|character| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends
    })
}

/// The samples with this name.
pub(crate) fn samples<'a>(text: &'a str, name: &str) -> impl Iterator<Item = Sample<'a>> {
    text.lines().filter_map(parse_sample).filter(move |sample| sample.name == name)
}

/// Returns the sum of the samples with a name, or `None` if there are none.
pub(crate) fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text, name).map(|sample| sample.value).reduce(|sum, value| sum + value)
}

/// Parses a line. Returns `None` for a comment.
fn parse_sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, rest) = match line.rsplit_once('}') {
        Some((series, rest)) => (series, rest),
        None => line.split_once(' ')?,
    };
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    // A timestamp may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.trim(), labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP a_total Things. {not a label="x"} 7
# TYPE a_total counter
a_total{action="none",error="internal"} 3
a_total{action="scale_up",error="none"} 1.5e+01 1395066363000
a_total_more{action="none"} 100
b 7
c{path="C:\\",text="say \"hi\", a=\"b\" }",} 1
d{le="+Inf"} NaN
"#;

    #[test]
    fn samples_with_a_name_are_summed() {
        assert_eq!(sum(TEXT, "a_total"), Some(18.0));
        assert_eq!(sum(TEXT, "b"), Some(7.0));
        assert_eq!(sum(TEXT, "a"), None);
    }

    #[test]
    fn labels_with_escapes_and_delimiters_are_found() {
        let labels = |name: &str, label: &str| {
            samples(TEXT, name).map(|sample| sample.label(label)).collect::<Vec<_>>()
        };
        assert_eq!(labels("a_total", "error"), ["internal", "none"]);
        assert_eq!(labels("a_total", "rror"), ["", ""]);
        assert_eq!(labels("c", "path"), [r"C:\\"]);
        assert_eq!(labels("c", "text"), [r#"say \"hi\", a=\"b\" }"#]);
        assert_eq!(labels("c", "a"), [""]);
    }
}
