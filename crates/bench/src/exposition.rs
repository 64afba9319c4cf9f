//! The text in which a process tells its metrics.

/// One line of it: a name, a number.
struct Sample<'a> {
    name: &'a str,
    value: f64,
}

/// The samples of one name.
fn samples<'a>(text: &'a str, name: &str) -> impl Iterator<Item = Sample<'a>> {
    text.lines().filter_map(sample).filter(move |sample| sample.name == name)
}

/// The samples of one name, added up; none if there are none.
pub(crate) fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text, name).map(|sample| sample.value).reduce(|sum, value| sum + value)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, rest) = match line.rsplit_once('}') {
        Some((series, rest)) => (series, rest),
        None => line.split_once(' ')?,
    };
    let (name, _) = series.split_once('{').unwrap_or((series, ""));
    // A time may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.trim(), value })
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
    fn samples_of_a_name_are_added_up() {
        assert_eq!(sum(TEXT, "a_total"), Some(18.0));
        assert_eq!(sum(TEXT, "b"), Some(7.0));
        assert_eq!(sum(TEXT, "a"), None);
    }
}
