//! `hpa explain --all-namespaces`: a line for each autoscaler that fails or can't follow its
//! metrics.

use hpa_calc::{
    Settings,
    explain::counted,
    report::{ShortReport, State},
};
use serde::Serialize;

use crate::{
    args::{ExplainHpaArguments, ReportFormat},
    controller_options::setting_policy,
    kubectl, status,
    terminal::{self, escape_line},
};

/// An autoscaler with a problem.
#[derive(Serialize)]
struct Problem {
    autoscaler: String,
    state: State,
    sentence: String,
}

/// Reads only the stored statuses, no metrics.
pub(super) async fn run(
    arguments: &ExplainHpaArguments,
    settings: &Settings,
) -> anyhow::Result<()> {
    let client = kubectl::clients(&arguments.cluster).await?.api;
    let api = arguments.autoscaler_api.into();
    let namespace = arguments.cluster.namespace.as_deref();
    let all = status::list(&client, api, namespace).await?;
    if all.is_empty() {
        kubectl::require_namespace(&client, namespace).await?;
    }
    let policy = setting_policy(&arguments.autoscaling);
    let problems = all.iter().filter_map(|autoscaler| {
        let report = autoscaler.short_report(settings, &policy);
        let is_problem = report.is_problem();
        let ShortReport { state, sentence, .. } = report;
        let problem = Problem { autoscaler: autoscaler.name.clone(), state, sentence };
        is_problem.then_some(problem)
    });
    let mut problems: Vec<_> = problems.collect();
    problems.sort_by(|left, right| {
        (left.state, &left.autoscaler).cmp(&(right.state, &right.autoscaler))
    });
    terminal::print(&match arguments.output {
        ReportFormat::Json => serde_json::to_string_pretty(&problems)? + "\n",
        ReportFormat::Yaml => serde_saphyr::to_string(&problems)?,
        ReportFormat::Text => text(&problems, all.len()),
    })
}

fn text(problems: &[Problem], count: usize) -> String {
    let width = problems.iter().map(|one| one.autoscaler.chars().count()).max().unwrap_or(0);
    let line = |Problem { autoscaler, sentence, .. }: &Problem| {
        format!("{autoscaler:width$}  {}\n", escape_line(sentence))
    };
    let lines: String = problems.iter().map(line).collect();
    let all = counted(count, "autoscaler");
    let source = "by the statuses that their controllers stored";
    match problems.len() {
        0 => format!("None of {all} has a problem, {source}.\n"),
        found => {
            let problem = match found {
                1 => "fails or can't do what its metrics ask for",
                _ => "fail or can't do what their metrics ask for",
            };
            format!(
                "{lines}\n{found} of {all} {problem}, {source}. hpa explain NAMESPACE/NAME reads \
                 the metrics and says more.\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_one_line_each() {
        let problem = |autoscaler: &str, sentence: &str| Problem {
            autoscaler: autoscaler.to_owned(),
            state: State::Failing,
            sentence: sentence.to_owned(),
        };
        let problems = [problem("shop/web", "cpu\ncannot be read"), problem("a/b", "off")];
        let text = text(&problems, 7);
        let start = "shop/web  cpu\\ncannot be read\na/b       off\n\n2 of 7 autoscalers fail";
        assert!(text.starts_with(start), "{text}");
        assert_eq!(
            super::text(&[], 7),
            "None of 7 autoscalers has a problem, by the statuses that their controllers stored.\n"
        );
    }
}
