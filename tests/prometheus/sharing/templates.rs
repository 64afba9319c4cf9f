//! Random query templates, including some that can't be shared.

use fastrand::Rng;

const MATCHERS: &str = "<<.LabelMatchers>>";

/// Templates whose queries must not be shared, because a shared query has other results.
pub(super) const NOT_SHARED: [&str; 12] = [
    "topk(1, inflight{<<.LabelMatchers>>})",
    "count(inflight{<<.LabelMatchers>>}) * on () group_right () inflight{<<.LabelMatchers>>}",
    "inflight{<<.LabelMatchers>>} / on (namespace) group_left sum by (namespace) \
     (inflight{<<.LabelMatchers>>})",
    "inflight{<<.LabelMatchers>>} - on () group_left max(inflight{<<.LabelMatchers>>})",
    "inflight{<<.LabelMatchers>>} * scalar(count(inflight{<<.LabelMatchers>>}))",
    "inflight{<<.LabelMatchers>>} and on (namespace) (workers{<<.LabelMatchers>>} > 2)",
    "inflight{<<.LabelMatchers>>} unless on () absent(workers{<<.LabelMatchers>>})",
    "bottomk by (namespace) (2, inflight{<<.LabelMatchers>>})",
    "label_replace(max by (pod) (inflight{<<.LabelMatchers>>}), \"pod\", \"x\", \"pod\", \
     \"web-1\")",
    "limits unless on (pod) inflight{<<.LabelMatchers>>}",
    "workers{<<.LabelMatchers>>} + on () group_left count(limits{<<.LabelMatchers>>})",
    "quantile by (namespace) (0.5, inflight{<<.LabelMatchers>>}) * on (namespace) group_right () \
     workers{<<.LabelMatchers>>}",
];

/// A random template.
pub(super) fn random(rng: &mut Rng) -> String {
    let depth = rng.usize(1..5);
    vector(rng, depth)
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    rng.choice(choices).copied().unwrap_or_default()
}

fn vector(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 {
        return leaf(rng);
    }
    let depth = depth - 1;
    match rng.u8(..12) {
        0..=3 => aggregation(rng, depth),
        4..=6 => binary(rng, depth),
        7..=8 => function(rng, depth),
        9 => {
            let function =
                pick(rng, &["max_over_time", "avg_over_time", "last_over_time", "deriv"]);
            let range = pick(rng, &["[5m:1m]", "[3m:]", "[4m:30s] offset 1m"]);
            let inner = vector(rng, depth);
            format!("{function}(({inner}){range})")
        }
        10 => {
            let bound = pick(rng, &["0.9", "0.5"]);
            let by = pick(rng, &["by (le, <<.GroupBy>>)", "by (<<.GroupBy>>, le)", "by (le)"]);
            format!(
                "histogram_quantile({bound}, sum {by} \
                 (rate(latency_seconds_bucket{{{MATCHERS}}}[4m])))"
            )
        }
        _ => format!("-({})", vector(rng, depth)),
    }
}

fn leaf(rng: &mut Rng) -> String {
    let matchers = match rng.u8(..8) {
        0 => "",
        1 => "namespace=\"shop\"",
        2 => "pod!=\"web-1\",<<.LabelMatchers>>",
        _ => MATCHERS,
    };
    match rng.u8(..6) {
        0 => {
            let function = pick(rng, &["rate", "increase", "resets", "changes", "irate"]);
            format!("{function}(requests_total{{{matchers}}}[4m])")
        }
        1 => format!("avg_over_time(inflight{{{matchers}}}[5m] offset 1m)"),
        2 => format!("limits{{{matchers}}}"),
        3 => format!("workers{{{matchers}}}"),
        _ => format!("inflight{{{matchers}}}"),
    }
}

fn aggregation(rng: &mut Rng, depth: usize) -> String {
    let inner = vector(rng, depth);
    let grouping = match rng.u8(..10) {
        0 => "",
        1 => "by (namespace)",
        2 => "by (container)",
        3 => "without (container, code)",
        4 => "without (pod)",
        5 => "by (<<.GroupBy>>, container, code)",
        _ => "by (<<.GroupBy>>)",
    };
    match rng.u8(..8) {
        0 => format!("{} {grouping} (2, {inner})", pick(rng, &["topk", "bottomk"])),
        1 => format!("quantile {grouping} (0.7, {inner})"),
        2 => format!("count_values {grouping} (\"value\", {inner})"),
        3 => {
            let name = pick(rng, &["stddev", "stdvar", "group", "count"]);
            format!("{name}({inner}) {grouping}")
        }
        _ => {
            let name = pick(rng, &["sum", "avg", "min", "max", "count"]);
            format!("{name} {grouping} ({inner})")
        }
    }
}

fn binary(rng: &mut Rng, depth: usize) -> String {
    let left = vector(rng, depth);
    if rng.u8(..4) == 0 {
        let operator = pick(rng, &["*", "+", "/", ">", "<= bool", "^", "%"]);
        let number = pick(rng, &["2", "0.5", "0", "-3", "scalar(sum(limits))", "Inf"]);
        return format!("({left}) {operator} {number}");
    }
    let right = match rng.u8(..6) {
        0 => "pod_info".to_owned(),
        1 => "sum by (namespace) (limits)".to_owned(),
        2 => format!("pod_info{{{MATCHERS}}}"),
        _ => vector(rng, depth),
    };
    let is_set_operator = rng.u8(..4) == 0;
    let operator = if is_set_operator {
        pick(rng, &["and", "or", "unless"])
    } else {
        pick(rng, &["*", "/", "-", "+", ">", "== bool", "<="])
    };
    let labels = pick(
        rng,
        &["on (<<.GroupBy>>)", "on (namespace, pod)", "on (namespace)", "on ()", "", "", ""],
    );
    let labels = if rng.u8(..5) == 0 { "ignoring (container, code)" } else { labels };
    let group = if is_set_operator || labels.is_empty() {
        ""
    } else {
        pick(rng, &["", "group_left", "group_left (node)", "group_right", "group_left (pod)"])
    };
    // After `group_left`, an operand in parentheses would be parsed as labels.
    let needs_labels = matches!(group, "group_left" | "group_right");
    let group = if needs_labels { format!("{group} ()") } else { group.to_owned() };
    format!("({left}) {operator} {labels} {group} ({right})")
}

fn function(rng: &mut Rng, depth: usize) -> String {
    let inner = vector(rng, depth);
    match rng.u8(..8) {
        0 => format!("absent({inner})"),
        1 => format!("vector(scalar({inner}))"),
        2 => format!("label_replace({inner}, \"other\", \"$1\", \"pod\", \"web-(.*)\")"),
        3 => format!("label_replace({inner}, \"pod\", \"web-1\", \"container\", \"proxy\")"),
        4 => format!("clamp_max({inner}, scalar(max(limits)))"),
        5 => format!("({inner}) or vector(0)"),
        _ => format!("{}({inner})", pick(rng, &["abs", "ceil", "sqrt", "timestamp", "sort_desc"])),
    }
}
