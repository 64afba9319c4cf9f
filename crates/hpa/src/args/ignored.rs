//! Flags of the generic API server that have no effect here.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, parser::ValueSource};

/// Flags of prometheus-adapter and kube-metrics-adapter that `hpa adapter` accepts and ignores, so
/// that the arguments of a deployment can stay, and whether they need a value.
const IGNORED: [(&str, bool); 69] = [
    ("audit-log-batch-buffer-size", true),
    ("audit-log-batch-max-size", true),
    ("audit-log-batch-max-wait", true),
    ("audit-log-batch-throttle-burst", true),
    ("audit-log-batch-throttle-enable", false),
    ("audit-log-batch-throttle-qps", true),
    ("audit-log-compress", false),
    ("audit-log-format", true),
    ("audit-log-maxage", true),
    ("audit-log-maxbackup", true),
    ("audit-log-maxsize", true),
    ("audit-log-mode", true),
    ("audit-log-path", true),
    ("audit-log-truncate-enabled", false),
    ("audit-log-truncate-max-batch-size", true),
    ("audit-log-truncate-max-event-size", true),
    ("audit-log-version", true),
    ("audit-policy-file", true),
    ("audit-webhook-batch-buffer-size", true),
    ("audit-webhook-batch-max-size", true),
    ("audit-webhook-batch-max-wait", true),
    ("audit-webhook-batch-throttle-burst", true),
    ("audit-webhook-batch-throttle-enable", false),
    ("audit-webhook-batch-throttle-qps", true),
    ("audit-webhook-config-file", true),
    ("audit-webhook-initial-backoff", true),
    ("audit-webhook-mode", true),
    ("audit-webhook-truncate-enabled", false),
    ("audit-webhook-truncate-max-batch-size", true),
    ("audit-webhook-truncate-max-event-size", true),
    ("audit-webhook-version", true),
    ("contention-profiling", false),
    ("debug-socket-path", true),
    ("discovery-interval", true),
    ("enable-priority-and-fairness", false),
    ("feature-gates", true),
    ("add_dir_header", false),
    ("alsologtostderr", false),
    ("log-dir", true),
    ("log_dir", true),
    ("log_backtrace_at", true),
    ("log_file", true),
    ("log_file_max_size", true),
    ("log-flush-frequency", true),
    ("log-json-info-buffer-size", true),
    ("log-json-split-stream", false),
    ("log-text-info-buffer-size", true),
    ("log-text-split-stream", false),
    ("logging-format", true),
    ("logtostderr", false),
    ("one_output", false),
    ("permit-address-sharing", false),
    ("permit-port-sharing", false),
    ("profiling", false),
    ("skip_headers", false),
    ("skip_log_headers", false),
    ("stderrthreshold", true),
    ("tls-cipher-suites", true),
    ("tls-curve-preferences", true),
    ("tls-sni-cert-key", true),
    ("v", true),
    ("vmodule", true),
    // Of kube-metrics-adapter.
    ("disregard-incompatible-hpas", false),
    ("garbage-collector-interval", true),
    ("horizontal-pod-autoscaler-tolerance", true),
    ("kube-client-burst", true),
    ("kube-client-qps", true),
    ("metrics-address", true),
    ("resource-update-interval", true),
];

/// The ignored flags of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct IgnoredArguments {
    /// The flags that were given.
    pub(crate) given: Vec<&'static str>,
}

impl clap::FromArgMatches for IgnoredArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |name: &str| {
            matches.value_source(name).is_some_and(|source| source == ValueSource::CommandLine)
        };
        let given = IGNORED.iter().map(|(name, _)| *name).filter(|name| is_given(name));
        Ok(Self { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for IgnoredArguments {
    fn augment_args(command: Command) -> Command {
        IGNORED.iter().fold(command, |command, (name, needs_value)| {
            let argument = Arg::new(*name).long(*name).hide(true).action(ArgAction::Append);
            let argument = if *needs_value {
                argument.num_args(1).allow_hyphen_values(true)
            } else {
                argument.num_args(0..=1).require_equals(true)
            };
            let argument = if *name == "v" { argument.short('v') } else { argument };
            command.arg(argument.default_missing_value("true"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
