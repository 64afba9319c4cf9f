//! Values of flags, and errors about them.

use super::*;
use crate::args::values::{LOG_TARGETS, duration, time};

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
fn negative_value_is_rejected_by_the_parser_of_its_flag() {
    for (command, expected) in [
        (
            "replay shop/web --prometheus=http://p --since -1d",
            "invalid value '-1d' for '--since <DURATION>': must be a duration of at least 1m",
        ),
        (
            "forecast shop/web --prometheus=http://p --quantile -0.5",
            "invalid value '-0.5' for '--quantile <NUMBER>': must be a number between 0 and 1",
        ),
        (
            "recommend s.yaml --max-risk -1",
            "invalid value '-1' for '--max-risk <PERCENT>': must be a number",
        ),
    ] {
        let words = ["hpa"].into_iter().chain(command.split(' '));
        let error = Arguments::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
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
fn error_names_the_variable_of_a_value_from_the_environment() {
    let arguments = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
    let program = Arguments::command();
    // The value is on the command line here: a test must not change the environment.
    let describe_invalid = |invalid: &[&str], texts: &[&str]| {
        let error = Arguments::try_parse_from(invalid).expect_err("an invalid value");
        name_variable(error, &arguments(texts), &program).to_string()
    };
    let describe = |texts: &[&str]| describe_invalid(&["hpa", "run", "--threads=abc"], texts);
    assert!(describe(&["hpa", "run"]).contains("the variable HPA_THREADS"));
    for texts in [["--threads=abc"].as_slice(), &["--threads", "abc"]] {
        let error = describe(&[&["hpa", "run"][..], texts].concat());
        assert!(!error.contains("HPA_THREADS"), "{error}");
    }
    let longer_flag = ["hpa", "run", "--threads-of-metrics=1"];
    assert!(describe(&longer_flag).contains("the variable HPA_THREADS"));
    let check = ["hpa", "rules", "check", "rules.yaml"];
    let invalid = [&check[..], &["--prometheus-query-timeout=abc"]].concat();
    let error = describe_invalid(&invalid, &check);
    assert!(error.contains("the variable HPA_PROMETHEUS_QUERY_TIMEOUT"), "{error}");
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
fn permission_must_name_a_server() {
    let check = |server: &str| {
        let permission = format!("--collector-permission={server}=shop");
        let run = parse(&["--additional-prometheus-server=eu=http://p", &permission]);
        let checked = run.expect("the flags").collectors.check_permissions();
        checked.map_err(|error| error.to_string())
    };
    for server in ["eu", "prometheus", "url"] {
        assert_eq!(check(server), Ok(()));
    }
    let unknown = "--collector-permission: there is no server promtheus";
    assert_eq!(check("promtheus"), Err(unknown.to_owned()));
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
