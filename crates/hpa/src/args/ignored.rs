//! Flags of prometheus-adapter, kube-metrics-adapter, klog and the generic API server that
//! `hpa adapter` accepts and ignores, so that an existing deployment can keep its arguments.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, parser::ValueSource};

/// Flags that need a value.
const WITH_VALUE: &str = "\
    audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-max-wait \
    audit-log-batch-throttle-burst audit-log-batch-throttle-qps audit-log-format audit-log-maxage \
    audit-log-maxbackup audit-log-maxsize audit-log-mode audit-log-path \
    audit-log-truncate-max-batch-size audit-log-truncate-max-event-size audit-log-version \
    audit-policy-file audit-webhook-batch-buffer-size audit-webhook-batch-max-size \
    audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst \
    audit-webhook-batch-throttle-qps audit-webhook-config-file audit-webhook-initial-backoff \
    audit-webhook-mode audit-webhook-truncate-max-batch-size \
    audit-webhook-truncate-max-event-size audit-webhook-version debug-socket-path \
    discovery-interval feature-gates log-dir log_dir log_backtrace_at log_file log_file_max_size \
    log-flush-frequency log-json-info-buffer-size log-text-info-buffer-size logging-format \
    stderrthreshold tls-cipher-suites tls-curve-preferences tls-sni-cert-key v vmodule \
    garbage-collector-interval horizontal-pod-autoscaler-tolerance kube-client-burst \
    kube-client-qps metrics-address resource-update-interval";
/// Boolean flags.
const WITHOUT_VALUE: &str = "\
    audit-log-batch-throttle-enable audit-log-compress audit-log-truncate-enabled \
    audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled contention-profiling \
    enable-priority-and-fairness add_dir_header alsologtostderr log-json-split-stream \
    log-text-split-stream logtostderr one_output permit-address-sharing permit-port-sharing \
    profiling skip_headers skip_log_headers disregard-incompatible-hpas";

/// The name of each ignored flag, and whether it needs a value.
fn ignored() -> impl Iterator<Item = (&'static str, bool)> {
    let with_value = WITH_VALUE.split_whitespace().map(|name| (name, true));
    with_value.chain(WITHOUT_VALUE.split_whitespace().map(|name| (name, false)))
}

/// The ignored flags of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct IgnoredArguments {
    /// Names without the leading dashes.
    pub(crate) names: Vec<&'static str>,
}

impl clap::FromArgMatches for IgnoredArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let names = ignored().map(|(name, _)| name).filter(|name| is_given(name));
        Ok(Self { names: names.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for IgnoredArguments {
    fn augment_args(command: Command) -> Command {
        ignored().fold(command, |command, (name, needs_value)| {
            let argument = Arg::new(name).long(name).hide(true).action(ArgAction::Append);
            let argument = if needs_value {
                argument.num_args(1).allow_hyphen_values(true)
            } else {
                argument.num_args(0..=1).require_equals(true)
            };
            let argument = if name == "v" { argument.short('v') } else { argument };
            command.arg(argument.default_missing_value("true"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
