//! What annotations of an autoscaler ask of this controller.

use hpa_calc::{api::HorizontalPodAutoscaler, pause::Pause};

/// `"true"`, `"up"` or `"down"`: its target is not scaled, or not in that direction. `"false"` as without it.
pub const PAUSE: &str = "autoscaling.hpa-rs.dev/pause";
/// `"true"`: it is decided on and compared, and nothing is written ([`crate::shadow`]). `"false"` as without it.
pub const DRY_RUN: &str = "autoscaling.hpa-rs.dev/dry-run";

/// What the annotations of one autoscaler ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationSettings {
    /// The directions in which it is not to scale.
    pub pause: Pause,
    /// Whether nothing is to be written for it.
    pub dry_run: bool,
    /// What is wrong with the annotations, for its owner to read. What has no known value is not heeded.
    pub invalid: Option<String>,
}

impl AnnotationSettings {
    /// Those of an autoscaler.
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
        let invalid =
            (!problems.is_empty()).then(|| format!("{}; it is not heeded", problems.join(", ")));
        Self { pause, dry_run, invalid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(annotations: &[(&str, &str)]) -> AnnotationSettings {
        let mut hpa = HorizontalPodAutoscaler::default();
        for (name, value) in annotations {
            hpa.metadata.annotations.insert((*name).to_owned(), (*value).to_owned());
        }
        AnnotationSettings::from_hpa(&hpa)
    }

    #[test]
    fn names_are_of_our_own_group() {
        for name in [PAUSE, DRY_RUN] {
            assert_eq!(name.split_once('/').expect("a domain").0, hpa_crd::GROUP);
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(wishes(&[("team", "a")]), AnnotationSettings::default());
        assert_eq!(wishes(&[(PAUSE, "false"), (DRY_RUN, "false")]), AnnotationSettings::default());
        let down = AnnotationSettings {
            pause: Pause { up: false, down: true },
            ..AnnotationSettings::default()
        };
        assert_eq!(wishes(&[(PAUSE, "down")]), down);
        let both = AnnotationSettings { pause: Pause::BOTH, dry_run: true, invalid: None };
        assert_eq!(wishes(&[(PAUSE, "true"), (DRY_RUN, "true")]), both);
    }

    #[test]
    fn unknown_value_is_a_fault_and_not_heeded() {
        let AnnotationSettings { pause, dry_run, invalid } =
            wishes(&[(PAUSE, "yes"), (DRY_RUN, "1")]);
        assert_eq!((pause, dry_run), (Pause::NONE, false));
        assert_eq!(
            invalid.as_deref(),
            Some(
                "annotation autoscaling.hpa-rs.dev/pause must be \"true\", \"up\", \"down\" or \"false\", annotation \
                 autoscaling.hpa-rs.dev/dry-run must be \"true\" or \"false\"; it is not heeded"
            )
        );
    }
}
