//! The functions and aggregations of PromQL.

use super::{Type, is_one_of};

/// Types of arguments, one letter each: `s`calar, instant `v`ector, `r`ange vector, `t`ext (a
/// string). Arguments after `?` are optional. `*` allows any number of the last argument.
type Parameters = &'static str;

/// Functions that read each series on its own and keep its labels. Some remove `__name__` or `le`.
const BY_SERIES: [(Parameters, &str); 10] = [
    (
        "v",
        "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg \
         histogram_count histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad sgn sin \
         sinh sort sort_desc sqrt tan tanh timestamp",
    ),
    (
        "r",
        "avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate \
         last_over_time mad_over_time max_over_time min_over_time present_over_time rate resets \
         stddev_over_time stdvar_over_time sum_over_time ts_of_first_over_time \
         ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time",
    ),
    ("?v", "day_of_month day_of_week day_of_year days_in_month hour minute month year"),
    ("v?s", "round"),
    ("vs", "clamp_max clamp_min"),
    ("vss", "clamp"),
    ("sr", "quantile_over_time"),
    ("rs", "predict_linear"),
    ("rss", "double_exponential_smoothing holt_winters"),
    ("ssv", "histogram_fraction"),
];

/// The other known functions. They may combine series, or add, change or remove labels.
const OTHER_FUNCTIONS: [(Parameters, &str); 9] = [
    ("", "pi time"),
    ("s", "vector"),
    ("v", "absent scalar"),
    ("r", "absent_over_time"),
    ("sv", "histogram_quantile"),
    ("v?v", "info"),
    ("vt*", "sort_by_label sort_by_label_desc"),
    ("vttt*", "label_join"),
    ("vtttt", "label_replace"),
];

fn find_parameters(functions: &[(Parameters, &str)], name: &str) -> Option<Parameters> {
    let has = |names: &str| names.split_whitespace().any(|candidate| candidate == name);
    functions.iter().find(|(_, names)| has(names)).map(|(parameters, _)| *parameters)
}

/// The types of a function's arguments. `None` if Prometheus has no such function.
pub(super) fn parameters(name: &str) -> Option<Parameters> {
    find_parameters(&BY_SERIES, name).or_else(|| find_parameters(&OTHER_FUNCTIONS, name))
}

/// Whether a function reads each series on its own and keeps its labels, apart from `__name__` and
/// `le`.
pub(crate) fn is_by_series(name: &str) -> bool {
    find_parameters(&BY_SERIES, name).is_some()
}

/// The type of a function's result. An unknown function is assumed to return an instant vector.
pub(super) fn result_type(name: &str) -> Type {
    if ["pi", "scalar", "time"].contains(&name) { Type::Scalar } else { Type::InstantVector }
}

/// Checks the number and the types of arguments. Returns a message about the first mistake.
pub(super) fn check_arguments(
    name: &str,
    parameters: Parameters,
    arguments: impl ExactSizeIterator<Item = Type>,
) -> Result<(), String> {
    let required = parameters.split('?').next().unwrap_or_default().trim_end_matches('*').len();
    let required = required - usize::from(parameters.ends_with('*'));
    let mut types: Vec<Type> = parameters.chars().filter_map(parameter_type).collect();
    let given = arguments.len();
    let max = if parameters.ends_with('*') { usize::MAX } else { types.len() };
    if given < required || given > max {
        let (bound, expected) = if required == max {
            ("", max)
        } else if given > max {
            ("at most ", max)
        } else {
            ("at least ", required)
        };
        let plural = if expected == 1 { "" } else { "s" };
        return Err(format!("{name} needs {bound}{expected} argument{plural}, not {given}"));
    }
    let last = types.last().copied();
    types.extend(last.into_iter().cycle().take(given.saturating_sub(types.len())));
    for (expected, given) in types.into_iter().zip(arguments) {
        if expected != given {
            let advice = match (expected, given) {
                (Type::RangeVector, Type::InstantVector) => ": add a range, such as [5m]",
                (Type::InstantVector, Type::RangeVector) => ": remove the range",
                _ => "",
            };
            return Err(format!("{name} needs {expected}, not {given}{advice}"));
        }
    }
    Ok(())
}

fn parameter_type(letter: char) -> Option<Type> {
    Some(match letter {
        's' => Type::Scalar,
        'v' => Type::InstantVector,
        'r' => Type::RangeVector,
        't' => Type::Text,
        _ => return None,
    })
}

/// Aggregations, whose names are not case-sensitive.
const AGGREGATIONS: [(Parameters, &str); 3] = [
    ("v", "avg count group max min stddev stdvar sum"),
    ("sv", "bottomk limit_ratio limitk quantile topk"),
    ("tv", "count_values"),
];

/// The types of an aggregation's arguments. `None` if Prometheus has no such aggregation.
pub(super) fn aggregation_parameters(name: &str) -> Option<Parameters> {
    find_parameters(&AGGREGATIONS, &name.to_ascii_lowercase())
}

/// Whether the result of an aggregation can depend on more than the samples of a group.
pub(crate) fn depends_on_other_groups(name: &str) -> bool {
    is_one_of(name, &["count_values", "limit_ratio", "limitk"])
}
