mod help;
mod value_parsers;

use std::collections::BTreeSet;

use clap::CommandFactory;
use hpa_collectors::{Compat, registry::COLLECTORS};
use hpa_controller::AutoscalerApi;
use jiff::SignedDuration;
use rstest::rstest;

use super::*;

fn parse(arguments: &[&str]) -> Result<RunArguments, String> {
    let arguments = ["hpa", "run"].iter().chain(arguments);
    match Arguments::try_parse_from(arguments) {
        Ok(Arguments { command: Command::Run(run) }) => Ok(*run),
        Ok(Arguments { command }) => Err(format!("another command: {command:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn command_definition_is_valid() {
    Arguments::command().debug_assert();
}

#[test]
fn defaults_match_kube_controller_manager() {
    let autoscaling = parse(&[]).expect("the defaults").autoscaling;
    assert_eq!(autoscaling.concurrent_horizontal_pod_autoscaler_syncs, 5);
    assert_eq!(autoscaling.horizontal_pod_autoscaler_sync_period, SignedDuration::from_secs(15));
    assert_eq!(
        autoscaling.horizontal_pod_autoscaler_downscale_stabilization,
        SignedDuration::from_mins(5)
    );
    assert!((autoscaling.horizontal_pod_autoscaler_tolerance - 0.1).abs() < f64::EPSILON);
    assert_eq!(
        autoscaling.horizontal_pod_autoscaler_cpu_initialization_period,
        SignedDuration::from_mins(5)
    );
    assert_eq!(
        autoscaling.horizontal_pod_autoscaler_initial_readiness_delay,
        SignedDuration::from_secs(30)
    );
}

#[test]
fn every_boolean_flag_of_run_accepts_the_same_values() {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("run");
    let is_boolean = |argument: &&clap::Arg| {
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "BOOL"))
    };
    let flags: Vec<_> =
        run.get_arguments().filter(is_boolean).filter_map(clap::Arg::get_long).collect();
    assert_eq!(flags.len(), 16, "{flags:?}");
    for flag in flags {
        for value in ["", "=true", "=false", "=1", "=off"] {
            parse(&[&format!("--{flag}{value}")]).expect(flag);
        }
        parse(&[&format!("--{flag}"), "false"]).expect_err(flag);
        parse(&[&format!("--{flag}=maybe")]).expect_err(flag);
    }
    let run = parse(&["--leader-elect=false", "--dry-run=true", "--in-cluster"]).expect("flags");
    assert!(!run.election.lease.leader_elect && run.dry_run && run.cluster.in_cluster);
}

#[test]
fn file_after_a_boolean_flag_is_not_its_value() {
    for flag in ["--collectors", "--scaling-schedule"] {
        let arguments = Arguments::try_parse_from(["hpa", "lint", flag, "a.yaml"]).expect(flag);
        let Command::Lint(lint) = arguments.command else { panic!("not lint") };
        assert_eq!(lint.paths(), [Path::new("a.yaml")], "{flag}");
    }
}

#[test]
fn lint_accepts_files_with_and_without_filename_flag() {
    let parse = |flags: &[&str]| {
        let arguments = [["hpa", "lint"].as_slice(), flags].concat();
        Arguments::try_parse_from(arguments).map(|arguments| match arguments.command {
            Command::Lint(lint) => lint,
            _ => panic!("not lint"),
        })
    };
    for flags in [
        ["-f", "a.yaml", "-f", "b.yaml"].as_slice(),
        &["--filename=a.yaml", "--filename", "b.yaml"],
        // A shell expands `-f *.yaml` to one `-f` and positional files. `paths` returns positional
        // files first.
        &["-f", "b.yaml", "a.yaml"],
        &["a.yaml", "b.yaml"],
    ] {
        let lint = parse(flags).expect("files");
        assert_eq!(lint.paths(), [Path::new("a.yaml"), Path::new("b.yaml")], "{flags:?}");
        assert!(parse(&[flags, &["-A"]].concat()).is_err(), "{flags:?} -A");
        assert!(parse(&[flags, &["-R"]].concat()).expect("-R").recursive);
    }
    assert!(parse(&["-R", "-A"]).is_err());
    let error = parse(&[]).expect_err("nothing to check").to_string();
    assert!(error.contains("--all-namespaces") && error.contains("--namespace"), "{error}");
    assert!(parse(&["-n", "shop"]).expect("a namespace").paths().is_empty());
}

#[test]
fn inconsistent_election_durations_are_a_usage_error() {
    for (flag, named) in [
        ("--leader-elect-lease-duration=10s", "--leader-elect-lease-duration must be greater"),
        ("--leader-elect-renew-deadline=15s", "than --leader-elect-renew-deadline (15s, 15s)"),
        ("--leader-elect-renew-deadline=2400ms", "--leader-elect-renew-deadline must be greater"),
        ("--leader-elect-retry-period=9s", "1.2 times --leader-elect-retry-period (10s, 9s)"),
    ] {
        let arguments = ["hpa", "run", flag].map(OsString::from);
        let error = Arguments::try_parse_checked(&arguments).expect_err(flag);
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains(named), "{flag}: {error}");
    }
}

#[test]
fn watch_of_all_autoscalers_is_a_usage_error_with_alternatives() {
    let arguments = ["hpa", "explain", "-A", "--watch"].map(OsString::from);
    let error = Arguments::try_parse_checked(&arguments).expect_err("a conflict");
    assert_eq!(error.exit_code(), 2, "{error}");
    let text = error.to_string();
    assert!(text.contains("hpa dashboard") && text.contains("watch hpa explain"), "{text}");
}

#[test]
fn leader_election_defaults_match_kube_controller_manager() {
    let election = parse(&[]).expect("the defaults").election;
    let seconds = |duration: SignedDuration| duration.as_secs();
    assert!(election.lease.leader_elect && election.keep_history);
    assert_eq!(seconds(election.lease.leader_elect_lease_duration), 15);
    assert_eq!(seconds(election.leader_elect_renew_deadline), 10);
    assert_eq!(seconds(election.leader_elect_retry_period), 2);
    assert_eq!(election.check_durations(), Ok(()));
}

#[test]
fn election_durations_have_the_ratios_of_kube_controller_manager() {
    let lease = parse(&[]).expect("the defaults").election.lease;
    let config = lease.election_config(Some("scaling".to_owned()), None);
    assert_eq!(config.namespace, "scaling");
    assert_eq!((config.renew_deadline.as_secs(), config.retry_period.as_secs()), (10, 2));
    assert_eq!(lease.election_config(None, None).namespace, "kube-system");
}

#[test]
fn rules_explain_accepts_metrics_config_flag() {
    let words = ["hpa", "rules", "explain", "external", "jobs", "--metrics-config", "a.yaml"];
    let Command::Rules(RulesCommand::Explain(arguments)) = Arguments::parse_from(words).command
    else {
        panic!("another command");
    };
    assert_eq!(arguments.config, Path::new("a.yaml"));
}

#[test]
fn adapter_accepts_kubeconfig_as_alias_of_lister_kubeconfig() {
    let arguments = Arguments::try_parse_from(["hpa", "adapter", "--kubeconfig", "k"]);
    let Command::Adapter(arguments) = arguments.expect("an alias").command else {
        panic!("another command")
    };
    assert_eq!(arguments.cluster.lister_kubeconfig, Some("k".into()));
}

#[test]
fn lease_flags_of_adapter_have_separate_variables_and_default_name() {
    let command = Arguments::command();
    let lease_flags = |subcommand: &str| -> Vec<_> {
        let subcommand = command.find_subcommand(subcommand).expect("a subcommand");
        subcommand
            .get_arguments()
            .filter(|argument| argument.get_id().as_str().starts_with("leader_elect"))
            .cloned()
            .collect()
    };
    let run = lease_flags("run");
    let adapter = lease_flags("adapter");
    assert_eq!(adapter.len(), 4, "{adapter:?}");
    for adapter_flag in adapter {
        let run_flag = run.iter().find(|flag| flag.get_id() == adapter_flag.get_id());
        let run_flag = run_flag.expect("the same flag");
        let variable = |argument: &clap::Arg| {
            argument.get_env().map(|name| name.to_string_lossy().into_owned()).expect("a variable")
        };
        assert_eq!(variable(&adapter_flag), variable(run_flag).replace("HPA_", "HPA_ADAPTER_"));
        let help = |argument: &clap::Arg| argument.get_help().expect("a text").to_string();
        assert_ne!(help(&adapter_flag), help(run_flag));
        let is_name = adapter_flag.get_id() == "leader_elect_resource_name";
        assert_eq!(is_name, adapter_flag.get_default_values() != run_flag.get_default_values());
    }
    let arguments = Arguments::try_parse_from(["hpa", "adapter"]).expect("the defaults");
    let Command::Adapter(arguments) = arguments.command else { panic!("another command") };
    assert_eq!(arguments.election.leader_elect_resource_name, "hpa-adapter");
}

#[rstest]
#[case::default(&[], 9)]
#[case::compat_off(&["--compat=off"], 9)]
#[case::prometheus_adapter(&["--compat=prometheus-adapter"], 10)]
#[case::kube_metrics_adapter(&["--compat=kube-metrics-adapter"], 10)]
#[case::flag(&["--compat=prometheus-adapter", "--prometheus-query-timeout=3s"], 3)]
fn queries_of_the_adapter_time_out_before_its_clients(
    #[case] flags: &[&str],
    #[case] seconds: i64,
) {
    let words = [&["hpa", "adapter"][..], flags].concat();
    let Command::Adapter(arguments) = Arguments::parse_from(words).command else {
        panic!("another command");
    };
    let timeout = arguments.prometheus.prometheus_query_timeout;
    assert_eq!(timeout, SignedDuration::from_secs(seconds));
}

#[test]
fn service_account_and_kubeconfig_exclude_each_other() {
    let check = |arguments: &[&str]| parse(arguments).expect("flags").cluster.check_credentials();
    let error = check(&["--in-cluster", "--context=prod"]).expect_err("two sources");
    assert_eq!(error, "--in-cluster can't be used with --kubeconfig or --context");
    assert_eq!(check(&["--in-cluster=false", "--kubeconfig=f"]), Ok(()));
    assert_eq!(check(&["--in-cluster"]), Ok(()));
}

#[test]
fn namespace_can_be_repeated_or_comma_separated() {
    let cluster = parse(&["--namespace", "a", "-n", "b,c"]).expect("namespaces").cluster;
    assert_eq!(cluster.namespaces, ["a", "b", "c"]);
}

#[test]
fn autoscaler_api_defaults_to_core_and_accepts_the_old_name() {
    use AutoscalerApi::{Core, Custom};
    let apis = |arguments: &[&str]| parse(arguments).expect("an API").cluster.autoscaler_api.apis();
    assert_eq!(apis(&[]), [Core]);
    assert_eq!(apis(&["--autoscaler-api=custom"]), [Custom]);
    assert_eq!(apis(&["--autoscaler-api=own"]), [Custom]);
    assert_eq!(apis(&["--autoscaler-api=both"]), [Core, Custom]);
}

#[test]
fn certificate_without_key_is_rejected() {
    let error = parse(&["--tls-cert-file", "tls.crt"]).expect_err("no key");
    assert!(error.contains("--tls-private-key-file"), "{error}");
}

#[test]
fn every_flag_of_run_has_an_environment_variable() {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("run");
    for argument in run
        .get_arguments()
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
    {
        assert!(argument.get_env().is_some(), "{}", argument.get_id());
    }
}

#[test]
fn debug_api_follows_the_bind_address() {
    let address = |flags: &[&str]| {
        let port = ["--debug-port=8443"];
        let flags: Vec<_> = port.iter().chain(flags).copied().collect();
        parse(&flags).expect("the flags").debug_address().to_string()
    };
    assert_eq!(address(&[]), "0.0.0.0:8443");
    assert_eq!(address(&["--bind-address=10.0.0.1"]), "10.0.0.1:8443");
    let both = ["--bind-address=10.0.0.1", "--debug-bind-address=127.0.0.1"];
    assert_eq!(address(&both), "127.0.0.1:8443");
}

/// A new collector without flags is on, without a change in `args`.
#[test]
fn collectors_are_on_unless_they_need_a_flag() {
    let names = |arguments: &[&str], has_prometheus| {
        let run = parse(arguments).expect("the flags");
        run.collectors.collection_settings(Compat::Off, has_prometheus).collectors
    };
    let all: BTreeSet<_> = COLLECTORS.iter().map(|collector| collector.name).collect();
    let need_a_flag =
        ["external-rps", "influxdb", "nakadi", "prometheus", "schedule", "skipper", "sqs", "zmon"];
    let off: Vec<_> = all.difference(&names(&[], false)).copied().collect();
    assert_eq!(off, need_a_flag);
    let flags = [
        "--skipper-ingress-metrics",
        "--external-rps-metrics",
        "--influxdb-address=http://i",
        "--aws-external-metrics",
        "--zmon-kariosdb-endpoint=http://z",
        "--nakadi-endpoint=http://n",
    ];
    let off: Vec<_> = all.difference(&names(&flags, true)).copied().collect();
    assert_eq!(off, ["schedule"]);
}

#[test]
fn collector_flags_that_lack_another_flag_are_ineffective() {
    let ineffective = |flags: &[&str]| {
        let run = parse(flags).expect("the flags");
        run.collectors.ineffective_flags(run.prometheus.prometheus_url.is_some())
    };
    let (skipper, rps) = ("--skipper-ingress-metrics", "--external-rps-metrics");
    let influxdb = "--influxdb-address=http://i";
    let without = |flag: &str, missing: &str| format!("{flag} has no effect without {missing}");
    assert_eq!(
        ineffective(&["--collectors", skipper, rps, influxdb]),
        [without(skipper, "--prometheus-url"), without(rps, "--prometheus-url")]
    );
    let url = "--prometheus-url=http://p";
    assert_eq!(ineffective(&["--collectors", skipper, influxdb, url]), [""; 0]);
    assert_eq!(
        ineffective(&[skipper, influxdb, url]),
        [without(skipper, "--collectors"), without("--influxdb-address", "--collectors")]
    );
    assert_eq!(ineffective(&[url]), [""; 0]);
}
