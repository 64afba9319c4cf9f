//! The queries that rules make of a request, as far as the fake Prometheus answers them.

/// The first selector of a query, and the labels of the result.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Query {
    pub(super) series: String,
    pub(super) namespace: Option<String>,
    /// The names of the pods. `None` for all.
    pub(super) pods: Option<Vec<String>>,
    /// The labels that the query keeps.
    pub(super) labels: Vec<String>,
}

impl Query {
    /// Parses `sum(rate(SERIES{MATCHERS}[5m])) by (LABELS)` and the like. `None` if there is no
    /// selector in braces.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (before, rest) = text.split_once('{')?;
        let (matchers, after) = split_matchers(rest)?;
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let start = before.rfind(|character| !is_name(character)).map_or(0, |index| index + 1);
        let mut query = Self {
            series: before.get(start..)?.to_owned(),
            labels: labels(before).or_else(|| labels(after)).unwrap_or_default(),
            ..Self::default()
        };
        for (label, value) in matchers {
            match label {
                "__name__" => value.clone_into(&mut query.series),
                "namespace" => query.namespace = Some(value.to_owned()),
                "pod" if !value.is_empty() => {
                    query.pods = Some(value.split('|').map(str::to_owned).collect());
                }
                _ => {}
            }
        }
        Some(query)
    }
}

/// Splits `a="b",c=~"d|e"}rest` into labels with their values, and the rest. Inequalities are left
/// out.
fn split_matchers(text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut matchers = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((matchers, after));
        }
        let (matcher, after) = rest.split_once('"')?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        let is_negative = matcher.contains('!');
        if !is_negative {
            matchers.push((matcher.trim_end_matches(['=', '~', ' ']), value));
        }
    }
}

/// The labels of the first `by` clause.
fn labels(text: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once("by")?;
    let (labels, _) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    Some(labels.split(',').map(|label| label.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::names(
        r#"sum(rate(m{namespace="n",pod=~"a-0|a-1"}[2m])) by (pod)"#,
        Some(&["a-0", "a-1"][..]),
        &["pod"]
    )]
    #[case::one_name(r#"sum(m{namespace="n",pod="a-0"}) by (pod)"#, Some(&["a-0"][..]), &["pod"])]
    #[case::all_pods(
        r#"sum by (namespace, pod) (rate(m{namespace="n"}[5m]))"#,
        None,
        &["namespace", "pod"]
    )]
    #[case::name_as_a_matcher(r#"{__name__="m", namespace="n", pod!=""}"#, None, &[])]
    fn query_is_parsed(#[case] text: &str, #[case] pods: Option<&[&str]>, #[case] labels: &[&str]) {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let expected = Query {
            series: "m".to_owned(),
            namespace: Some("n".to_owned()),
            pods: pods.map(owned),
            labels: owned(labels),
        };
        assert_eq!(Query::parse(text), Some(expected));
    }

    #[rstest]
    #[case("up")]
    #[case("m{a")]
    #[case(r#"m{a="b}"#)]
    fn query_without_a_selector_is_refused(#[case] text: &str) {
        assert_eq!(Query::parse(text), None);
    }
}
