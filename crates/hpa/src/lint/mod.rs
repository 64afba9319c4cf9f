//! `hpa lint`: reports mistakes in autoscalers.
//!
//! Reads the objects of files ([`crate::manifests`]) or of a cluster ([`cluster`]) into a
//! [`workspace::Workspace`], and runs the checks of [`rules::RULES`] on each object.

mod cluster;
mod finding;
mod index;
mod object;
mod old_fields;
mod output;
mod queries;
mod rules;
mod served;
mod workspace;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use hpa_calc::shell::quote;
use serde_json::Value;

use self::{
    finding::{Finding, Severity},
    object::uses_metrics_api,
    served::ServedMetrics,
    workspace::Workspace,
};
pub(crate) use self::{
    object::is_autoscaler,
    rules::{invalid_fields, mistake_of_annotation, unknown_collector_type},
};
use crate::{
    EXIT_INCONCLUSIVE,
    args::{LintArguments, LintFormat, SourceArguments},
    collectors::InProcessSources,
    kubectl::block_on,
    manifests::{self, Input, Manifest, Problem, directory_with, file_name},
    rules::builtin,
    terminal,
};

/// The names of the file that makes a directory an input of `kustomize build`.
const KUSTOMIZATION_FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Checks the autoscalers of files or of a cluster, and prints the findings. The exit status is 1
/// with errors or, unless a flag makes them notes, warnings. It is [`EXIT_INCONCLUSIVE`] with an
/// input that can't be checked.
pub(crate) fn run(arguments: &LintArguments) -> anyhow::Result<ExitCode> {
    let paths = arguments.paths();
    let (mut workspace, mut problems) = if paths.is_empty() {
        (block_on(cluster::read_workspace(arguments))?, Vec::new())
    } else {
        let mut input = manifests::read_paths(&paths, arguments.recursive);
        let problem = missing_autoscaler_problem(&paths, &input, "hpa lint");
        input.problems.extend(problem);
        let mut workspace = Workspace::from_manifests(input.manifests);
        workspace.set_namespace(arguments.cluster.namespace.as_deref());
        let served = served::read_rules(&arguments.sources.rules, builtin::mapper());
        workspace.served = block_on(served)?.map(ServedMetrics::with_unknown_cluster);
        (workspace, input.problems)
    };
    workspace.in_process_sources = InProcessSources::from_flags(&arguments.sources);
    problems.extend(discovery_problems(&workspace, &arguments.sources));
    arguments.sources.warn_of_unused_flags();
    let findings = find_violations(&workspace);
    for problem in &problems {
        terminal::warn(problem);
    }
    match arguments.output {
        LintFormat::Text => {
            let autoscaler_count = workspace.autoscalers().count();
            terminal::print(&output::text(&findings, autoscaler_count, problems.len()))?;
        }
        LintFormat::Json => terminal::print_json(&output::json(&findings)?)?,
        LintFormat::Sarif => terminal::print_json(&output::sarif(&findings, &problems)?)?,
    }
    Ok(exit_code(&findings, &problems, arguments.warnings_as_notes))
}

/// A problem if Prometheus could not list the series of `--metrics-config`. Another one for each
/// metrics API that doesn't answer, if an autoscaler uses it.
fn discovery_problems(workspace: &Workspace, sources: &SourceArguments) -> Vec<Problem> {
    let Some(served) = &workspace.served else { return Vec::new() };
    let file = sources.rules.metrics_config.as_ref();
    let of_rules = served.discovery_error.as_ref().zip(file);
    let of_rules = of_rules.map(|(error, file)| {
        let place = format!("--metrics-config {}", file.display());
        (place, error, "a metric that such a rule may have")
    });
    let is_used = |group: &str| workspace.autoscalers().any(|one| uses_metrics_api(one, group));
    let of_apis = served.api_errors.iter().filter(|(group, _)| is_used(group));
    let of_apis = of_apis.map(|(group, error)| (group.clone(), error, "a metric"));
    let problems = of_rules.into_iter().chain(of_apis).map(|(place, error, metric)| Problem {
        place,
        message: format!("{error}. Whether {metric} is served is unknown and was not checked"),
    });
    problems.collect()
}

fn exit_code(findings: &[Finding], problems: &[Problem], warnings_as_notes: bool) -> ExitCode {
    let failing = if warnings_as_notes { Severity::Error } else { Severity::Warning };
    if !problems.is_empty() {
        ExitCode::from(EXIT_INCONCLUSIVE)
    } else if findings.iter().any(|finding| finding.rule.severity >= failing) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// A problem if the files have no autoscaler and no other problem. The message lists the kinds that
/// they have. For a kustomization, it has a command line that passes the result to `command`.
pub(crate) fn missing_autoscaler_problem(
    paths: &[PathBuf],
    input: &Input,
    command: &str,
) -> Option<Problem> {
    let Input { manifests, problems } = input;
    if !problems.is_empty() || manifests.iter().any(is_autoscaler) {
        return None;
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for manifest in manifests {
        let kind = Some(manifest.kind()).filter(|kind| !kind.is_empty());
        *kinds.entry(kind.unwrap_or("object without a kind")).or_default() += 1;
    }
    let counts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let found = if counts.is_empty() { "no object".to_owned() } else { counts.join(", ") };
    // The kind is optional in a kustomization, so the file's name counts too.
    let kustomization = manifests.iter().find(|manifest| {
        let name = Path::new(&manifest.file).file_name().and_then(OsStr::to_str);
        manifest.kind() == "Kustomization"
            || name.is_some_and(|name| KUSTOMIZATION_FILES.contains(&name))
    });
    let advice = kustomization.map_or_else(String::new, |manifest| {
        format!(". Build it first: {}", kustomize_command(&manifest.file, command))
    });
    let places: Vec<String> = paths.iter().map(|path| file_name(path)).collect();
    let message = format!("no {}, found {found}{advice}", hpa_calc::crd::KIND);
    Some(Problem { place: places.join(", "), message })
}

/// The command line that passes the output of kustomize for the directory of a file to `command`.
fn kustomize_command(file: &str, command: &str) -> String {
    let directory = directory_with(Path::new(file), &KUSTOMIZATION_FILES);
    let directory = quote(directory.as_deref().unwrap_or("DIRECTORY"));
    format!("kustomize build {directory} | {command} -")
}

/// The IDs of the rules that generated objects violate.
pub(crate) fn violated_rules(objects: Vec<Value>) -> Vec<&'static str> {
    let manifest = |object| Manifest::new("", 1, object);
    let workspace = Workspace::from_manifests(objects.into_iter().map(manifest).collect());
    find_violations(&workspace).iter().map(|finding| finding.rule.id).collect()
}

/// ID, severity and summary of each rule.
#[cfg(test)]
pub(crate) fn all_rules() -> impl Iterator<Item = [&'static str; 3]> {
    rules::RULES.iter().map(|rule| [rule.id, rule.severity.as_str(), rule.summary])
}

/// The warnings before a conversion, a line for each with the place in the file:
///
/// - about invalid or unknown annotations of this project
/// - about keys that occur twice: the conversion keeps the last
/// - about autoscalers with an unknown version or kind: the conversion leaves them as they are
pub(crate) fn conversion_warnings(mut manifests: Vec<Manifest>) -> Vec<String> {
    for manifest in &mut manifests {
        // If kube-controller-manager stored the status last, the rule would report all settings in
        // annotations.
        let metadata = manifest.object.pointer_mut("/metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.remove("managedFields");
        }
    }
    let findings = find_violations(&Workspace::from_manifests(manifests));
    let is_relevant = |finding: &&Finding| match finding.rule.id {
        "invalid-annotation" => finding.field.starts_with("metadata.annotations"),
        id => ["duplicate-key", "unknown-kind"].contains(&id),
    };
    findings.iter().filter(is_relevant).map(output::line).collect()
}

/// Checks all objects. Sorts the findings by [`Finding::sort_key`], and removes duplicates. Errors
/// about one line keep the order of the validation, which is that of the API server.
fn find_violations(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    rules::check_objects(workspace, &mut findings);
    // The validation reports some mistakes twice.
    let mut seen = HashSet::new();
    findings.retain(|finding| seen.insert(finding.printed_parts()));
    findings.sort_by(|left, right| left.sort_key().cmp(&right.sort_key()));
    findings
}
