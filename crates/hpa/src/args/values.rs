//! Parsers of flag values.

use std::{ffi::OsStr, time::Duration};

use clap::{
    Arg, ArgAction, Command, ValueEnum,
    builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser},
};
use hpa_calc::{
    Quantity, go_duration,
    settings::{SETTINGS, Setting},
};
use hpa_controller::AutoscalerApi;
use jiff::{SignedDuration, Timestamp};

use super::AutoscalerApiArgument;

/// The value name of boolean flags.
pub(super) const BOOL: &str = "BOOL";
/// Prefixes of environment variables. [`finish_flags`] appends the name of the flag.
pub(super) const HPA_PREFIX: &str = "HPA_";
pub(super) const HPA_ADAPTER_PREFIX: &str = "HPA_ADAPTER_";

/// Finishes the flags of a command and its subcommands: boolean and negative values, and
/// environment variables.
pub(super) fn finish_flags(command: Command) -> Command {
    command
        .mut_args(accept_boolean)
        .mut_args(accept_leading_minus)
        .mut_args(set_variable_name)
        .mut_subcommands(finish_flags)
}

/// The value names of flags whose values are numbers, durations or times.
const NUMERIC: [&str; 10] = [
    "COUNT", "DURATION", "FACTOR", "FACTORS", "FRACTION", "N", "NUMBER", "PERCENT", "RATE", "TIME",
];

/// Makes a flag for numbers take a value with a minus, such as `-1d`, so that its parser explains
/// the mistake. Otherwise, clap takes the value for another flag.
fn accept_leading_minus(argument: Arg) -> Arg {
    let names = argument.get_value_names().unwrap_or_default();
    let is_numeric =
        argument.get_long().is_some() && names.iter().any(|name| NUMERIC.contains(&name.as_str()));
    if is_numeric { argument.allow_hyphen_values(true) } else { argument }
}

/// Names the environment variable of a flag after the flag: `HPA_DRY_RUN` for `--dry-run`.
fn set_variable_name(argument: Arg) -> Arg {
    match (argument.get_env().and_then(OsStr::to_str), argument.get_long()) {
        (Some(prefix @ (HPA_PREFIX | HPA_ADAPTER_PREFIX)), Some(flag)) => {
            let variable = format!("{prefix}{}", flag.to_uppercase().replace('-', "_"));
            argument.env(variable)
        }
        _ => argument,
    }
}

/// Makes a flag whose value name is [`BOOL`] accept an optional boolean: `--flag`, `--flag=false`.
/// As in Go, the next word is not its value, so it can be a file.
fn accept_boolean(argument: Arg) -> Arg {
    let is_boolean =
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == BOOL));
    if !is_boolean {
        return argument;
    }
    argument
        .action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_parser(BoolishValueParser::new())
}

/// Parses a duration as the flags of kube-controller-manager do (`1.5h30m`), or in the notations of
/// jiff (`90 minutes`, `PT90M`).
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    match go_duration::parse(text).or_else(|_| text.parse::<SignedDuration>()) {
        Ok(duration) if duration.is_negative() => Err("must not be negative".to_owned()),
        Ok(duration) if duration > MAX_DURATION => Err("must be at most 8760h (a year)".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) => {
            Err("must be a duration such as 15s, 5m0s, 1h30m, 90 minutes or PT90M".to_owned())
        }
    }
}

/// A year, which is longer than any sensible window or period. Adding it to the current time can't
/// overflow.
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(8760);

/// Parses a duration of at least 10 ms.
pub(super) fn positive_duration(text: &str) -> Result<SignedDuration, String> {
    match duration(text)? {
        duration if duration < SignedDuration::from_millis(10) => {
            Err("must be at least 10ms".to_owned())
        }
        duration => Ok(duration),
    }
}

/// Parses a time with its offset, in RFC 3339 or another notation of jiff.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        "must be a date and a time with Z or an offset, such as 2026-01-31T08:00:00Z or \
         2026-01-31T09:00:00+01:00"
            .to_owned()
    })
}

/// Parses a number of at least 0, which may exceed 1.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    number_in(text, |number| number >= 0.0, "must be a number of at least 0, such as 0.1")
}

pub(super) fn number(text: &str) -> Result<f64, String> {
    number_in(text, |_| true, "must be a number")
}

pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    number_in(text, |number| number > 0.0, "must be a number above 0")
}

/// Parses a finite number that a range contains. `error` describes the range.
pub(super) fn number_in(
    text: &str,
    contains: impl Fn(f64) -> bool,
    error: &str,
) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && contains(*number));
    number.ok_or_else(|| error.to_owned())
}

/// Parses a number of bytes, which can be a quantity such as `512Mi`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<Quantity>().ok().map(|quantity| quantity.value());
    match bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("must be a number of bytes above 0, such as 512Mi".to_owned()),
    }
}

pub(super) fn dns_label(text: &str) -> Result<String, String> {
    let is_label = !text.is_empty()
        && text.len() <= 63
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label {
        Ok(text.to_owned())
    } else {
        Err("must be a DNS label: lower-case letters, digits and hyphens".to_owned())
    }
}

/// Parses the name of a lease: DNS labels, separated by dots.
pub(super) fn dns_subdomain(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(|label| dns_label(label).is_ok()) {
        Ok(text.to_owned())
    } else {
        Err("must be a DNS name: lower-case letters, digits, hyphens and dots".to_owned())
    }
}

/// The value of `--allow-settings` that allows no setting.
pub(crate) const NO_SETTINGS: &str = "none";

/// Parses the name of a setting that autoscalers may override, or [`NO_SETTINGS`].
pub(super) fn setting_name(text: &str) -> Result<&'static str, String> {
    if text == NO_SETTINGS {
        return Ok(NO_SETTINGS);
    }
    Setting::named(text).map(|setting| setting.name).ok_or_else(|| {
        let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        format!("must be {NO_SETTINGS:?} or names of settings: {}", names.join(", "))
    })
}

/// A parser of the name of one API of [`AutoscalerApiArgument`].
pub(super) fn autoscaler_api() -> impl TypedValueParser<Value = AutoscalerApi> {
    let apis = [AutoscalerApiArgument::Core, AutoscalerApiArgument::Custom];
    let names = PossibleValuesParser::new(apis.iter().filter_map(ValueEnum::to_possible_value));
    names.map(|name| if name == "core" { AutoscalerApi::Core } else { AutoscalerApi::Custom })
}

const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The crates that log, in this project and its dependencies: the first segment of a log target.
pub(super) const LOG_TARGETS: [&str; 13] = [
    "hpa",
    "hpa_adapter",
    "hpa_collectors",
    "hpa_controller",
    "hpa_lease",
    "hpa_metrics",
    "hpa_prometheus",
    "hyper",
    "hyper_util",
    "kube_client",
    "kube_runtime",
    "rustls",
    "tower",
];

/// Checks a log filter: levels and `target=level` directives, separated by commas.
///
/// `EnvFilter` takes any word for a target: `warning` or `debg` would turn logging off.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    for directive in text.split(',').map(str::trim) {
        check_log_directive(directive)?;
    }
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn check_log_directive(directive: &str) -> Result<(), String> {
    let (target, level) = match directive.split_once('=') {
        Some((target, level)) => (Some(target), level),
        None => (None, directive),
    };
    if !LOG_LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
        return Err(format!("unknown level {level:?}: must be one of {}", LOG_LEVELS.join(", ")));
    }
    let Some(target) = target else { return Ok(()) };
    let crate_name = target.split("::").next().unwrap_or_default();
    if !LOG_TARGETS.contains(&crate_name) {
        let known = LOG_TARGETS.join(", ");
        return Err(format!("unknown module {target:?}: must be in one of {known}"));
    }
    Ok(())
}

/// Converts a duration whose parser rejects negative values.
pub(crate) fn to_std(duration: SignedDuration) -> Duration {
    duration.unsigned_abs()
}
