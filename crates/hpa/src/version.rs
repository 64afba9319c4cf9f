//! `hpa version`, and the build information for metrics, logs and the user agent.

use std::env::consts;

use hpa_controller::BuildInfo;
use http::HeaderValue;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    args::{ReportFormat, VersionArguments},
    terminal,
};

/// The Cargo features that the output lists.
const FEATURES: [(&str, bool); 2] =
    [("demo", cfg!(feature = "demo")), ("mimalloc", cfg!(feature = "mimalloc"))];

pub(crate) fn run(arguments: &VersionArguments) -> anyhow::Result<()> {
    let text = render(&build_info(), arguments.format)?;
    terminal::print(&text)
}

fn render(build: &BuildInfo, format: ReportFormat) -> anyhow::Result<String> {
    let features: Vec<_> =
        FEATURES.iter().filter(|(_, enabled)| *enabled).map(|(name, _)| *name).collect();
    // The names are those of `kubectl version -o json`.
    let value: Value = json!({
        "version": build.version,
        "gitCommit": build.revision,
        "buildDate": build.date,
        "platform": platform(),
        "features": features,
    });
    Ok(match format {
        ReportFormat::Text => format!(
            "hpa {}\nGit commit: {}\nBuild date: {}\nPlatform:   {}\nFeatures:   {}\n",
            build.version,
            build.revision,
            build.date,
            platform(),
            if features.is_empty() { "none".to_owned() } else { features.join(", ") },
        ),
        ReportFormat::Json => terminal::json(&value)?,
        ReportFormat::Yaml => terminal::to_yaml(&value)?,
    })
}

/// The build of this binary. Revision and date come from the variables `HPA_GIT_REVISION` and
/// `SOURCE_DATE_EPOCH` of the build, or else from git.
pub(crate) fn build_info() -> BuildInfo {
    from_build_script(env!("HPA_GIT_REVISION"), env!("HPA_SOURCE_SECONDS"))
}

fn from_build_script(revision: &str, seconds: &str) -> BuildInfo {
    let mut build = BuildInfo::default();
    env!("CARGO_PKG_VERSION").clone_into(&mut build.version);
    if !revision.is_empty() {
        revision.clone_into(&mut build.revision);
    }
    // The Containerfile sets SOURCE_DATE_EPOCH to 0 by default.
    let date = seconds.parse().ok().filter(|seconds| *seconds != 0);
    if let Some(date) = date.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        build.date = date.to_string();
    }
    build
}

/// The user agent, which appears in audit logs: `hpa-rs/0.1.0 (linux/amd64) 6f7a8b9`, like
/// kubectl's.
pub(crate) fn user_agent() -> Option<HeaderValue> {
    let build = build_info();
    let revision = short_revision(&build);
    let text = format!("hpa-rs/{} ({}) {revision}", build.version, platform());
    HeaderValue::try_from(text).ok()
}

/// The first characters of the revision, as many as in kubectl's user agent.
pub(crate) fn short_revision(build: &BuildInfo) -> &str {
    build.revision.get(..7).unwrap_or(&build.revision)
}

/// Operating system and architecture, named as in container images.
pub(crate) fn platform() -> String {
    let architecture = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", consts::OS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    const REVISION: &str = "669b463d54d3a91c2bd3b2d5c0d1a2f3e4b5c6d7";

    #[test]
    fn revision_and_date_are_unknown_without_git() {
        let build = from_build_script("", "");
        assert_eq!((build.revision.as_str(), build.date.as_str()), ("unknown", "unknown"));
        assert_eq!(from_build_script("", "0").date, "unknown");
    }

    #[test]
    fn flags_are_those_of_kubectl_version() {
        for flags in [&["-o", "json"], &["--output", "json"]] {
            let parsed = Arguments::try_parse_from(["hpa", "version"].iter().chain(flags));
            let Command::Version(arguments) = parsed.unwrap().command else {
                unreachable!("the arguments say `version`")
            };
            assert!(render(&build_info(), arguments.format).unwrap().starts_with('{'));
        }
    }

    #[test]
    fn every_output_has_revision_and_date() {
        let build = from_build_script(REVISION, "1780000000");
        let json: Value =
            serde_json::from_str(&render(&build, ReportFormat::Json).unwrap()).unwrap();
        assert_eq!(json["gitCommit"], REVISION);
        assert_eq!(json["buildDate"], "2026-05-28T20:26:40Z");
        let yaml: Value =
            serde_saphyr::from_str(&render(&build, ReportFormat::Yaml).unwrap()).unwrap();
        assert_eq!(yaml, json);
        let text = render(&build, ReportFormat::Text).unwrap();
        assert!(text.starts_with(&format!("hpa {}\n", build.version)), "{text}");
        assert!(text.contains(REVISION) && text.contains("2026-05-28T20:26:40Z"), "{text}");
    }

    #[test]
    fn user_agent_has_version_platform_and_short_revision() {
        let agent = user_agent().unwrap();
        let agent = agent.to_str().unwrap();
        let start = format!("hpa-rs/{} ({}) ", env!("CARGO_PKG_VERSION"), platform());
        let revision = agent.strip_prefix(&start).unwrap();
        assert!(build_info().revision.starts_with(revision) && revision.len() == 7, "{agent}");
    }

    #[test]
    fn binary_of_a_checkout_has_its_revision() {
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git").args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| text.trim().to_owned())
        };
        // An archive of the sources has no repository to compare with.
        if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("crates/hpa/") {
            return;
        }
        assert_eq!(git(&["rev-parse", "HEAD"]).unwrap(), build_info().revision);
    }
}
