//! Checks of annotations.

use hpa_calc::pause::Pause;
use hpa_controller::annotations::{DRY_RUN, PAUSE};
use hpa_crd::member_path;

use super::validity::DecodedAutoscaler;
use crate::lint::finding::Report;

const ANNOTATIONS: &str = "metadata.annotations";
/// Part of every domain that stands for this project.
const PROJECT: &str = "hpa-rs";

/// The annotations of this project. The controller ignores names and values that it doesn't know.
pub(super) fn invalid_annotation(decoded: &DecodedAutoscaler, report: &mut Report<'_>) {
    for (name, value) in &decoded.annotations {
        let Some(value) = value.as_str() else { continue };
        let problem = match name.as_str() {
            PAUSE => value.parse::<Pause>().err().map(|error| error.to_string()),
            DRY_RUN if !["true", "false"].contains(&value) => {
                Some("must be \"true\" or \"false\"".to_owned())
            }
            DRY_RUN => None,
            _ => {
                let is_own =
                    name.split_once('/').is_some_and(|(domain, _)| domain.contains(PROJECT));
                is_own.then(|| format!("there is no such annotation, but {PAUSE} and {DRY_RUN}"))
            }
        };
        if let Some(problem) = problem {
            let message = format!("{problem}; ignored, is {value:?}");
            report.add(member_path(ANNOTATIONS, name), message);
        }
    }
}
