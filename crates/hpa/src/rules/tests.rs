//! What needs no Prometheus. `tests/in_process.rs` has the rest.

use std::path::Path;

use clap::Parser;

use super::{check, generate};
use crate::args::{CheckArguments, GenerateArguments};

/// The arguments as they are parsed.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    check: CheckArguments,
}

async fn check_file(path: &Path) -> anyhow::Result<(String, bool)> {
    let path = path.to_str().unwrap();
    check::check(&Arguments::try_parse_from(["check", path]).unwrap().check).await
}

#[tokio::test]
async fn check_without_a_server_reports_refused_rules() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yaml");
    std::fs::write(&path, "rules:\n- {seriesQuery: up, name: {matches: '('}}\n").unwrap();
    let (report, is_good) = check_file(&path).await.unwrap();
    assert!(!is_good);
    assert!(report.starts_with("line 2, column 37: rules[0].name.matches: unable"), "{report}");

    std::fs::write(&path, "rules: [{seriesQuerys: up}]").unwrap();
    let error = format!("{:#}", check_file(&path).await.unwrap_err());
    assert!(error.contains("rules.yaml: line 1, column 10"), "{error}");
}

#[tokio::test]
async fn generated_rules_are_valid() {
    let generated = |interval: &str, prefix: &str| {
        let (rate_interval, label_prefix) = (interval.to_owned(), prefix.to_owned());
        generate(&GenerateArguments { rate_interval, label_prefix })
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yaml");
    std::fs::write(&path, generated("2m", "kube_").unwrap()).unwrap();
    let (report, is_good) = check_file(&path).await.unwrap();
    assert!(is_good, "{report}");
    let error = generated("soon", "").unwrap_err().to_string();
    assert_eq!(error, "--rate-interval soon");
    assert!(generated("2m", "'").is_err());
}
