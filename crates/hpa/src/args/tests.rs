use std::collections::BTreeSet;

use clap::CommandFactory;
use hpa_collectors::{Compat, registry::COLLECTORS};
use hpa_controller::AutoscalerApi;
use jiff::SignedDuration;

use super::{
    values::{LOG_TARGETS, duration, time},
    *,
};

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
fn time_without_an_offset_is_rejected_with_an_example() {
    for arguments in [
        ["schedule", "preview", "f.yaml", "--from=tomorrow"],
        ["replay", "shop/web", "--prometheus=http://p", "--until=2026-01-31"],
        ["explain", "web", "--filename=f.yaml", "--at=8:00"],
    ] {
        let arguments = ["hpa"].into_iter().chain(arguments);
        let error = Arguments::try_parse_from(arguments).unwrap_err().to_string();
        let expected =
            ": must be a date and a time with Z or an offset, such as 2026-01-31T08:00:00Z";
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(time("2026-01-31T09:00:00+01:00"), time("2026-01-31T08:00:00Z"));
}

#[test]
fn durations_use_go_notation() {
    for (text, seconds) in
        [("15s", 15), ("5m0s", 300), ("1h30m", 5400), ("0", 0), ("0s", 0), ("2m", 120)]
    {
        assert_eq!(duration(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
    }
    assert_eq!(duration("1.5s"), Ok(SignedDuration::from_millis(1500)));
    assert_eq!(duration("250ms"), Ok(SignedDuration::from_millis(250)));
    // Units in any order, and with fractions.
    for (text, seconds) in [("1.5h30m", 7200), ("30m1h", 5400), (".5m", 30), ("+15s", 15)] {
        assert_eq!(duration(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
    }
    assert_eq!(duration("90 minutes"), Ok(SignedDuration::from_mins(90)));
    assert!(duration("-0.5s").is_err() && duration("9000h").is_err());
    // The error names each notation, and what it names is accepted.
    let error = duration("1foo").expect_err("no duration");
    assert_eq!(error, "must be a duration such as 15s, 5m0s, 1h30m, 90 minutes or PT90M");
    for text in ["1h30m", "90 minutes", "PT90M"] {
        assert_eq!(duration(text), Ok(SignedDuration::from_mins(90)), "{text}");
    }
}

#[test]
fn log_targets_are_the_crates_that_log() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut logging = Vec::new();
    for folder in std::fs::read_dir(crates).expect("the crates") {
        let path = folder.expect("a crate").path();
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        if !manifest.lines().any(|line| line.starts_with("tracing.workspace")) {
            continue;
        }
        let name = path.file_name().expect("a name").to_string_lossy().replace('-', "_");
        logging.push(if name == "hpa" { name } else { format!("hpa_{name}") });
    }
    logging.sort();
    let mut targets = LOG_TARGETS.to_vec();
    targets.retain(|target| target.starts_with("hpa"));
    assert_eq!(targets, logging);
}

#[test]
fn invalid_value_is_rejected_and_names_the_flag() {
    for (flag, value) in [
        ("--concurrent-horizontal-pod-autoscaler-syncs", "0"),
        ("--horizontal-pod-autoscaler-sync-period", "0s"),
        ("--horizontal-pod-autoscaler-sync-period", "15"),
        ("--horizontal-pod-autoscaler-downscale-stabilization", "-1s"),
        ("--horizontal-pod-autoscaler-tolerance", "-0.1"),
        ("--horizontal-pod-autoscaler-tolerance", "NaN"),
        ("--horizontal-pod-autoscaler-cpu-initialization-period", "soon"),
        ("--horizontal-pod-autoscaler-initial-readiness-delay", "9000h"),
        ("--kube-api-qps", "0"),
        ("--namespace", "Not-A-Namespace"),
        ("--log-level", "hpa=loud"),
        ("--log-level", "warning"),
        ("--log-level", ""),
        ("--log-level", "info,"),
        ("--log-level", "info,hpa_controler=debug"),
        ("--log-level", "=debug"),
        ("--log-format", "xml"),
        ("--request-timeout", "0"),
        ("--bind-address", "localhost"),
        ("--metrics-port", "65536"),
        ("--leader-elect", "maybe"),
        ("--leader-elect-lease-duration", "0s"),
        ("--leader-elect-renew-deadline", "-1s"),
        ("--leader-elect-retry-period", "0"),
        ("--leader-elect-resource-name", "Not A Name"),
        ("--leader-elect-resource-namespace", ""),
        ("--metrics-max-series-bytes", "0"),
        ("--metrics-max-series-bytes", "1X"),
        ("--metrics-max-series-names", "0"),
    ] {
        let argument = format!("{flag}={value}");
        let error = parse(&[&argument]).expect_err(&argument);
        assert!(error.contains(flag), "{argument}: {error}");
    }
}

#[test]
fn lease_name_is_a_dns_subdomain() {
    for name in ["hpa.shop-1.example", &["a".repeat(63), "b".repeat(63)].join(".")] {
        parse(&[&format!("--leader-elect-resource-name={name}")]).expect(name);
        let explain = ["hpa", "explain", "web", "--controller-lease", name];
        Arguments::try_parse_from(explain).expect(name);
    }
    for name in ["", ".a", "a.", "a..b", "a.-b", "A.b", &vec!["a".repeat(63); 4].join(".")] {
        parse(&[&format!("--leader-elect-resource-name={name}")]).expect_err(name);
    }
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
        assert_eq!(lint.files, [Path::new("a.yaml")], "{flag}");
    }
}

#[test]
fn error_names_the_variable_of_a_value_from_the_environment() {
    let arguments = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
    let program = Arguments::command();
    let describe = |texts: &[&str]| {
        // The value is on the command line here: a test must not change the environment.
        let error = Arguments::try_parse_from(["hpa", "run", "--threads=abc"]).expect_err("abc");
        name_variable(error, &arguments(texts), &program).to_string()
    };
    assert!(describe(&["hpa", "run"]).contains("the variable HPA_THREADS"));
    for texts in [["--threads=abc"].as_slice(), &["--threads", "abc"]] {
        let error = describe(&[&["hpa", "run"][..], texts].concat());
        assert!(!error.contains("HPA_THREADS"), "{error}");
    }
    let longer_flag = ["hpa", "run", "--threads-of-metrics=1"];
    assert!(describe(&longer_flag).contains("the variable HPA_THREADS"));
}

#[test]
fn value_of_a_short_flag_or_an_alias_is_not_from_the_environment() {
    for texts in [
        ["hpa", "run", "-n", "Shop"].as_slice(),
        &["hpa", "run", "-nShop"],
        &["hpa", "run", "--namespace", "Shop"],
        &["hpa", "adapter", "--disable-http2-serving=maybe"],
    ] {
        let arguments: Vec<_> = texts.iter().map(OsString::from).collect();
        let error = Arguments::try_parse_checked(&arguments).expect_err("an invalid value");
        let text = error.to_string();
        assert!(!text.contains("the value comes from"), "{texts:?}: {text}");
    }
}

#[test]
fn inconsistent_election_durations_are_a_usage_error() {
    let arguments = ["hpa", "run", "--leader-elect-lease-duration=10s"].map(OsString::from);
    let error = Arguments::try_parse_checked(&arguments).expect_err("equal durations");
    assert_eq!(error.exit_code(), 2, "{error}");
}

#[test]
fn log_level_takes_levels_and_known_modules() {
    for filter in
        ["warn", "DEBUG", "info,hpa_controller=debug", "off,hpa_controller::reconcile=trace"]
    {
        let log = parse(&["--log-level", filter]).expect(filter).log;
        assert_eq!(log.log_level, filter);
    }
    let error = parse(&["--log-level=verbose"]).expect_err("an unknown level");
    assert!(error.contains("must be one of off, error, warn, info, debug, trace"), "{error}");
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
    assert!(parse(&["--leader-elect"]).expect("a flag").election.lease.leader_elect);
    assert!(!parse(&["--leader-elect=false"]).expect("a flag").election.lease.leader_elect);
}

#[test]
fn rules_explain_accepts_the_flag_of_other_commands_for_the_rules_file() {
    let words = ["hpa", "rules", "explain", "external", "jobs", "--metrics-config", "a.yaml"];
    let Command::Rules(RulesArguments { command: RulesCommand::Explain(arguments) }) =
        Arguments::parse_from(words).command
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

#[test]
fn inconsistent_election_durations_are_rejected() {
    for (arguments, named) in [
        (["--leader-elect-lease-duration=10s"], "--leader-elect-lease-duration must be greater"),
        (["--leader-elect-renew-deadline=15s"], "than --leader-elect-renew-deadline (15s, 15s)"),
        (["--leader-elect-renew-deadline=2400ms"], "--leader-elect-renew-deadline must be greater"),
        (["--leader-elect-retry-period=9s"], "1.2 times --leader-elect-retry-period (10s, 9s)"),
    ] {
        let error = parse(&arguments).expect("each alone is good").election.check_durations();
        assert!(
            error.as_ref().is_err_and(|error| error.contains(named)),
            "{arguments:?}: {error:?}"
        );
    }
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
fn examples_fit_a_terminal_of_80_columns() {
    for command in Arguments::command().get_subcommands() {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let too_long: Vec<&str> =
            examples.lines().filter(|line| line.chars().count() > 79).collect();
        assert_eq!(too_long, Vec::<&str>::new(), "{}", command.get_name());
    }
}

#[test]
fn flags_without_a_group_have_no_heading() {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("run");
    for flag in ["dry_run", "threads", "shutdown_grace_period"] {
        let argument = run.get_arguments().find(|argument| argument.get_id() == flag);
        assert_eq!(argument.expect(flag).get_help_heading(), None, "{flag}");
    }
}

/// Collects the paths of all subcommands.
fn collect_paths(command: &ClapCommand, path: &[String], paths: &mut Vec<Vec<String>>) {
    for subcommand in command.get_subcommands() {
        let path = [path, &[subcommand.get_name().to_owned()]].concat();
        collect_paths(subcommand, &path, paths);
        paths.push(path);
    }
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_all_flags() {
    let mut paths = Vec::new();
    collect_paths(&Arguments::command(), &[], &mut paths);
    assert!(paths.len() > 20, "{paths:?}");
    let mut too_long = Vec::new();
    for path in paths {
        let help = |flag: &str| {
            let words = ["hpa".to_owned()].into_iter().chain(path.clone()).chain([flag.to_owned()]);
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let help = Arguments::try_parse_checked(&words).expect_err("help ends the program");
            help.to_string()
        };
        let (short, full) = (help("-h"), help("--help"));
        let is_wide = short.lines().any(|line| line.chars().count() > 120);
        let is_cut = short.lines().any(|line| line.ends_with(" ..."));
        if short.lines().count() > 24 || is_wide || is_cut {
            too_long.push(short.clone());
        }
        assert!(short.contains("Usage: hpa "), "{short}");
        let mut command = &Arguments::command();
        for name in &path {
            command = command.find_subcommand(name).expect("a command");
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let flag = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
            assert!(full.contains(&flag), "{path:?} {flag}");
        }
    }
    assert!(
        too_long.is_empty(),
        "{} texts are too long:\n{}",
        too_long.len(),
        too_long.join("\n---\n")
    );
}

#[test]
fn main_flags_exist() {
    let program = Arguments::command();
    for (path, flags) in MAIN_FLAGS {
        let mut command = &program;
        for name in path.split(' ') {
            command = command.find_subcommand(name).expect(path);
        }
        for flag in flags.split(' ') {
            let has_flag = |argument: &clap::Arg| argument.get_long() == Some(flag);
            assert!(command.get_arguments().any(has_flag), "{path} --{flag}");
        }
    }
}

#[test]
fn keda_page_names_all_collectors() {
    let collectors = include_str!("../../../../docs/collectors.md");
    let keda = include_str!("../../../../docs/keda.md");
    let table =
        collectors.split("| collector | is on with |\n|---|---|\n").nth(1).expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let names = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split(", "));
    let names: Vec<_> = names.map(str::trim).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(keda.contains(name), "{name:?} is not in docs/keda.md");
    }
}

/// Annotations and --collector-permission refer to each server by its name.
#[test]
fn additional_prometheus_server_needs_a_unique_name() {
    let named = |name: &str| {
        let flag = format!("--additional-prometheus-server={name}=http://p");
        parse(&[&flag]).map(|run| run.collectors.additional_prometheus_servers)
    };
    named("other").expect("an alias");
    for name in ["prometheus", "influxdb", "sqs", "zmon", "nakadi", "pods", "url"] {
        let error = named(name).expect_err("a name of another server");
        assert!(error.contains(&format!("{name} is the name of another server")), "{error}");
    }
}

/// A new collector without flags is on, without a change in `args`.
#[test]
fn collectors_are_on_unless_they_need_a_flag() {
    let names = |arguments: &[&str], has_prometheus| {
        let run = parse(arguments).expect("the flags");
        run.collectors.collection_settings(Compat::Off, has_prometheus).collectors
    };
    let all: BTreeSet<_> = COLLECTORS.iter().map(|collector| collector.name).collect();
    let needing =
        ["external-rps", "influxdb", "nakadi", "prometheus", "schedule", "skipper", "sqs", "zmon"];
    let off: Vec<_> = all.difference(&names(&[], false)).copied().collect();
    assert_eq!(off, needing);
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
