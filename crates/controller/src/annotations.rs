//! The annotations on autoscalers that this controller reads.

use hpa_calc::{api::HorizontalPodAutoscaler, pause::Pause};

/// `"true"`, `"up"` or `"down"`: the target is not scaled, or not in that direction. `"false"` is
/// the default.
pub const PAUSE: &str = "autoscaling.hpa-rs.dev/pause";
/// `"true"`: shadow mode for this autoscaler, see [`crate::shadow`]. `"false"` is the default.
pub const DRY_RUN: &str = "autoscaling.hpa-rs.dev/dry-run";

/// The settings in an autoscaler's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationSettings {
    /// The directions in which the target is not scaled.
    pub pause: Pause,
    /// Whether the autoscaler is in shadow mode.
    pub dry_run: bool,
    /// The message of an `InvalidAnnotation` event, if an annotation has an unknown value. Such an
    /// annotation is ignored.
    pub invalid: Option<String>,
}

impl AnnotationSettings {
    pub fn from_hpa(hpa: &HorizontalPodAutoscaler) -> Self {
        let annotations = &hpa.metadata.annotations;
        if annotations.is_empty() {
            return Self::default();
        }
        let mut problems = Vec::new();
        let pause = annotations.get(PAUSE).map(String::as_str);
        let pause = pause.map_or(Ok(Pause::NONE), str::parse).unwrap_or_else(|error| {
            problems.push(format!("annotation {PAUSE} {error}"));
            Pause::NONE
        });
        let dry_run = match annotations.get(DRY_RUN).map(String::as_str) {
            Some("true") => true,
            None | Some("false") => false,
            Some(_) => {
                problems.push(format!("annotation {DRY_RUN} must be \"true\" or \"false\""));
                false
            }
        };
        let invalid = (!problems.is_empty()).then(|| format!("{}; ignored", problems.join(", ")));
        Self { pause, dry_run, invalid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(annotations: &[(&str, &str)]) -> AnnotationSettings {
        let mut hpa = HorizontalPodAutoscaler::default();
        for (name, value) in annotations {
            hpa.metadata.annotations.insert((*name).to_owned(), (*value).to_owned());
        }
        AnnotationSettings::from_hpa(&hpa)
    }

    #[test]
    fn annotation_names_are_in_the_group_of_the_custom_api() {
        for name in [PAUSE, DRY_RUN] {
            assert_eq!(name.split_once('/').expect("a domain").0, hpa_crd::GROUP);
        }
    }

    #[test]
    fn valid_values_are_parsed() {
        assert_eq!(settings(&[("team", "a")]), AnnotationSettings::default());
        assert_eq!(
            settings(&[(PAUSE, "false"), (DRY_RUN, "false")]),
            AnnotationSettings::default()
        );
        let down = AnnotationSettings {
            pause: Pause { up: false, down: true },
            ..AnnotationSettings::default()
        };
        assert_eq!(settings(&[(PAUSE, "down")]), down);
        let both = AnnotationSettings { pause: Pause::BOTH, dry_run: true, invalid: None };
        assert_eq!(settings(&[(PAUSE, "true"), (DRY_RUN, "true")]), both);
    }

    #[test]
    fn unknown_value_is_reported_and_ignored() {
        let AnnotationSettings { pause, dry_run, invalid } =
            settings(&[(PAUSE, "yes"), (DRY_RUN, "1")]);
        assert_eq!((pause, dry_run), (Pause::NONE, false));
        assert_eq!(
            invalid.as_deref(),
            Some(
                "annotation autoscaling.hpa-rs.dev/pause must be \
                 \"true\", \"up\", \"down\" or \"false\", annotation \
                 autoscaling.hpa-rs.dev/dry-run must be \"true\" or \"false\"; ignored"
            )
        );
    }
}
