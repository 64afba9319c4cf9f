//! `hpa explain --all-namespaces`: a line for each autoscaler with a problem.

use hpa_calc::{
    Settings,
    explain::counted,
    go_text::truncate,
    report::{ShortReport, State},
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::controllers::describe_controllers;
use crate::{
    args::{ExplainArguments, ReportFormat, to_std},
    controller_options::setting_policy,
    kubectl,
    listed_autoscalers::{list_all_autoscalers, read_scales, set_other_autoscalers},
    terminal::{self, escape_line, shorten_names},
};

/// The maximum number of characters of a sentence in text, as in the controller's log. The names of
/// metrics may be longer.
const MAX_SENTENCE_CHARS: usize = 2000;

/// An autoscaler with a problem.
#[derive(Serialize)]
struct Problem {
    autoscaler: String,
    state: State,
    sentence: String,
}

/// Prints the problems according to the stored statuses, the leases, and the scales of targets that
/// may lack pods. Reads no metrics.
pub(super) async fn run(arguments: &ExplainArguments, settings: &Settings) -> anyhow::Result<()> {
    let client = kubectl::clients(&arguments.cluster).await?.api;
    let namespace = arguments.cluster.namespace.as_deref();
    let (mut autoscalers, scope) =
        list_all_autoscalers(&client, arguments.autoscaler_api, namespace).await?;
    let now = kubectl::now();
    let policy = setting_policy(&arguments.autoscaling);
    let timeout = to_std(arguments.cluster.request_timeout);
    let limits = scope.describe_limits().into_iter().map(|sentence| sentence + ".");
    let flags = &arguments.controller;
    let namespace = scope.namespace.as_deref();
    let about_controllers =
        describe_controllers(&client, flags, timeout, namespace, &mut autoscalers, now);
    let about_controllers = about_controllers.await;
    let notes: Vec<String> = limits.chain(about_controllers).collect();
    set_other_autoscalers(&mut autoscalers, now);
    read_scales(&client, timeout, &mut autoscalers, settings, &policy).await;
    let problems = autoscalers.iter().filter_map(|autoscaler| {
        let report = autoscaler.short_report(settings, &policy);
        let is_problem = report.is_problem(now);
        let ShortReport { state, mut sentence, .. } = report;
        if state == State::WaitingForPods {
            let scaled = autoscaler.hpa.status.last_scale_time;
            sentence.extend(scaled.map(|scaled| time_since_scaling(scaled, now)));
        }
        let problem = Problem { autoscaler: autoscaler.name.clone(), state, sentence };
        is_problem.then_some(problem)
    });
    let mut problems: Vec<_> = problems.collect();
    problems.sort_by(|left, right| {
        (left.state, &left.autoscaler).cmp(&(right.state, &right.autoscaler))
    });
    if arguments.output != ReportFormat::Text {
        notes.iter().for_each(terminal::warn);
    }
    terminal::print_report(arguments.output, &problems, |_| {
        let lines: String = notes.iter().map(|line| escape_line(line) + "\n").collect();
        terminal::escape_control(&(lines + &format_problems(&problems, autoscalers.len())))
    })
}

/// The end of a sentence about pods that an autoscaler waits for.
fn time_since_scaling(scaled: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(scaled).as_secs().max(0);
    format!("; it last scaled {:#} ago", SignedDuration::from_secs(seconds))
}

fn format_problems(problems: &[Problem], count: usize) -> String {
    let is_new = |problem: &&Problem| problem.state == State::New;
    let (new, problems): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(is_new);
    let names: Vec<_> = new.iter().map(|problem| problem.autoscaler.clone()).collect();
    let new = match names.len() {
        0 => String::new(),
        count => {
            let (autoscalers, names) = (counted(count, "autoscaler"), shorten_names(&names));
            format!("No controller has stored a status of {autoscalers}: {}\n", escape_line(&names))
        }
    };
    let with_status = count.saturating_sub(names.len());
    if with_status == 0 && count > 0 {
        new
    } else {
        new + &format_with_status(&problems, with_status)
    }
}

/// Formats the problems of the autoscalers that have a status. `count` is the number of these
/// autoscalers.
fn format_with_status(problems: &[&Problem], count: usize) -> String {
    let width = problems.iter().map(|one| one.autoscaler.chars().count()).max().unwrap_or(0);
    let line = |Problem { autoscaler, sentence, .. }: &&Problem| {
        let sentence = truncate(escape_line(sentence), MAX_SENTENCE_CHARS);
        format!("{autoscaler:width$}  {sentence}\n")
    };
    let lines: String = problems.iter().map(line).collect();
    let autoscalers = counted(count, "autoscaler");
    let source = "according to the stored statuses and settings";
    match problems.len() {
        0 => format!("None of {autoscalers} has a problem {source}.\n"),
        problem_count => {
            let have = if problem_count == 1 { "has" } else { "have" };
            format!(
                "{lines}\n{problem_count} of {autoscalers} {have} a problem {source}. hpa explain \
                 NAMESPACE/NAME reads the metrics and says more.\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_scaling_is_never_negative() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(time_since_scaling(at(0), at(432)), "; it last scaled 7m 12s ago");
        assert_eq!(time_since_scaling(at(5), at(0)), "; it last scaled 0s ago");
    }

    #[test]
    fn autoscalers_without_a_status_are_counted_apart() {
        let problem = |index: usize, state| Problem {
            autoscaler: format!("shop/{index}"),
            state,
            sentence: "cpu cannot be read".to_owned(),
        };
        let mut problems: Vec<_> = (0..29).map(|index| problem(index, State::New)).collect();
        let new = "No controller has stored a status of 29 autoscalers: shop/0, shop/1, shop/2 and \
                   26 more\n";
        assert_eq!(format_problems(&problems, 29), new);
        problems.push(problem(29, State::Failing));
        let text = format_problems(&problems, 31);
        let rest = text.strip_prefix(new).expect("the same line");
        assert!(
            rest.starts_with(
                "shop/29  cpu cannot be read\n\n1 of 2 autoscalers has a problem according"
            ),
            "{rest}"
        );
    }

    #[test]
    fn problems_are_one_line_each() {
        let problem = |autoscaler: &str, sentence: &str| Problem {
            autoscaler: autoscaler.to_owned(),
            state: State::Failing,
            sentence: sentence.to_owned(),
        };
        let problems = [problem("shop/web", "cpu\ncannot be read"), problem("a/b", "off")];
        let text = format_problems(&problems, 7);
        let start = "shop/web  cpu\\ncannot be read\na/b       off\n\n2 of 7 autoscalers have a \
                     problem according to";
        assert!(text.starts_with(start), "{text}");
        let long = [problem("shop/web", &"q".repeat(60_000))];
        let text = format_problems(&long, 7);
        let line = text.lines().next().unwrap_or_default();
        assert_eq!(line, format!("shop/web  {}…", "q".repeat(MAX_SENTENCE_CHARS)));
        assert_eq!(
            format_problems(&[], 7),
            "None of 7 autoscalers has a problem according to the stored statuses and settings.\n"
        );
    }
}
