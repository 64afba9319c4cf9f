//! The settings of one autoscaler in words, and the problems with them.

use std::fmt;

/// The settings of one autoscaler in words, for the condition `CustomSettings` and for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingsSummary {
    /// The autoscaler's own settings, as `NAME=VALUE`, except `pause` and `dry-run`, which are
    /// reported separately. Empty if kube-controller-manager handles the autoscaler.
    pub applied: String,
    /// The settings that are ignored or not used as written, with the reasons. Settings that a
    /// field overrides are not listed.
    pub problems: String,
    /// The settings that would prevent writes, but that kube-controller-manager ignores.
    pub ignored: IgnoredSettings,
    /// The names of the settings in `applied`.
    pub(crate) applied_names: Vec<&'static str>,
    /// The names of other settings that kube-controller-manager ignores.
    pub(crate) ignored_names: Vec<&'static str>,
    /// Whether kube-controller-manager handles the autoscaler, or may handle it.
    pub(crate) may_be_built_in: bool,
    /// See [`Settings::with_unknown_controller`](super::Settings::with_unknown_controller).
    pub(crate) is_controller_unknown: bool,
    /// See [`Settings::with_status_of_hpa_rs`](super::Settings::with_status_of_hpa_rs).
    pub(crate) is_status_of_hpa_rs: bool,
    /// See [`Settings::with_built_in_state`](super::Settings::with_built_in_state).
    pub(crate) built_in_state: String,
}

/// Settings that would prevent writes, but that kube-controller-manager ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredSettings {
    /// A pause.
    pub pause: bool,
    /// A dry run.
    pub dry_run: bool,
}

/// A setting that is ignored, or not used as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingProblem {
    /// The annotation or the field.
    pub place: SettingPlace,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The problem as the rest of a sentence, which starts with the place.
    pub message: String,
}

/// The place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    /// An annotation, with its name.
    Annotation(String),
    /// A field, with its path.
    Field(String),
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(name) => write!(f, "annotation {name}"),
            Self::Field(path) => f.write_str(path),
        }
    }
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// Annotations of the domain have names that no setting has. They are ignored, and reported as
    /// one problem.
    UnknownName,
    /// The value is not allowed. It is ignored.
    InvalidValue,
    /// The operator doesn't allow the setting. It is ignored.
    NotAllowed,
    /// The value is below the operator's minimum, which applies instead.
    Raised,
    /// The setting has no effect, because the autoscaler has no metric that it applies to.
    NoSuchMetric,
    /// A field has precedence: the setting's own field over its annotation, or a field of
    /// `behavior` over the setting.
    Overridden,
}

impl SettingProblem {
    /// The problem and what happens to the setting, as the rest of a sentence that starts with the
    /// place.
    pub fn consequence(&self) -> String {
        let ignored = match self.kind {
            ProblemKind::InvalidValue | ProblemKind::NotAllowed | ProblemKind::UnknownName => {
                ", ignored"
            }
            // Their messages say what happens to the setting.
            ProblemKind::Raised | ProblemKind::NoSuchMetric | ProblemKind::Overridden => "",
        };
        format!("{}{ignored}", self.message)
    }
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.consequence())
    }
}
