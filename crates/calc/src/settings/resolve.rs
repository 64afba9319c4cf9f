//! The effective settings of one autoscaler: the flags, then its annotations, then its fields.

use std::{fmt, sync::Arc};

use jiff::SignedDuration;

use super::{
    Settings,
    metric::MetricSettings,
    table::{DOMAIN, SETTINGS, Setting, Target},
    value::{MAX_ANNOTATION_LEN, Value, duration_text},
};
use crate::{
    api::{HorizontalPodAutoscaler, MetricSourceType, MetricSpec, UnknownFields},
    explain::one_line,
    go_text,
    similar::most_similar,
};

/// The maximum length of a message about a value, in characters.
const MAX_MESSAGE_LEN: usize = 300;
/// The maximum length of one setting in [`AutoscalerSettings::applied`], in characters.
const MAX_SETTING_LEN: usize = 100;
/// The maximum length of the name of an annotation in a message, in characters. The API server
/// allows 63 after the domain.
const MAX_NAME_LEN: usize = 100;
/// Unknown names of annotations beyond this number and the first one are not counted.
const MAX_OTHER_NAMES: usize = 16;
/// The maximum length of [`AutoscalerSettings::problems`] and of [`AutoscalerSettings::applied`],
/// in characters: the limit of an event's message.
const MAX_TEXT_LEN: usize = 1000;

/// The settings that the operator of the controller allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingPolicy {
    /// The names of the allowed settings.
    pub allowed: Vec<&'static str>,
    /// The shortest sync period.
    pub min_sync_period: SignedDuration,
}

impl Default for SettingPolicy {
    /// Allows all settings, and a sync period of at least 5 seconds.
    fn default() -> Self {
        Self {
            allowed: SETTINGS.iter().map(|setting| setting.name).collect(),
            min_sync_period: SignedDuration::from_secs(5),
        }
    }
}

/// The settings of one autoscaler in words, for the condition `CustomSettings` and for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutoscalerSettings {
    /// The settings that replace the flags, as `NAME=VALUE`, except `pause` and `dry-run`, which
    /// are reported separately.
    pub applied: String,
    /// The settings that are ignored or not used as written, with the reasons.
    pub problems: String,
    /// The settings without effect, because kube-controller-manager handles the autoscaler.
    pub ignored: IgnoredSettings,
    /// The names of the settings in `applied`.
    pub(crate) applied_names: Vec<&'static str>,
    /// The names of other settings that kube-controller-manager ignores.
    pub(crate) ignored_names: Vec<&'static str>,
    /// Whether kube-controller-manager handles the autoscaler.
    pub(crate) is_for_built_in: bool,
    /// What else is known of kube-controller-manager.
    pub(crate) built_in_state: String,
}

/// Settings that prevent writes, and that kube-controller-manager ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredSettings {
    /// A pause.
    pub pause: bool,
    /// A dry run.
    pub dry_run: bool,
}

impl IgnoredSettings {
    pub(crate) fn is_any(self) -> bool {
        self.pause || self.dry_run
    }
}

/// A setting that is ignored, or not used as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingProblem {
    /// The place of the setting: `annotation NAME` or the path of a field.
    pub place: Place,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The problem, after the place.
    pub message: String,
}

/// The place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An annotation, with its name.
    Annotation(String),
    /// A field, with its path.
    Field(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(name) => write!(f, "annotation {name}"),
            Self::Field(path) => f.write_str(path),
        }
    }
}

impl ProblemKind {
    /// Whether the setting is ignored altogether.
    pub fn is_ignored(self) -> bool {
        matches!(self, Self::InvalidValue | Self::NotAllowed | Self::UnknownName)
    }
}

impl SettingProblem {
    /// The message, and whether the setting is ignored.
    pub fn consequence(&self) -> String {
        let ignored = if self.kind.is_ignored() { "; ignored" } else { "" };
        format!("{}{ignored}", self.message)
    }
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.consequence())
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
    /// The value is below the operator's minimum, which holds instead.
    Raised,
    /// The setting has no effect, because the autoscaler has no metric that it applies to.
    NoSuchMetric,
    /// A field also sets it, and has precedence.
    Overridden,
}

/// The effective settings, and the problems with those of the autoscaler.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The effective settings.
    pub settings: Settings,
    /// The settings that are ignored or not used as written.
    pub problems: Vec<SettingProblem>,
}

impl Settings {
    /// The effective settings of an autoscaler. `self` has the settings of the flags. The
    /// annotations and fields of the autoscaler override them, and a field has precedence over an
    /// annotation.
    ///
    /// Derive them when the object changes, not in each reconcile.
    pub fn for_autoscaler(
        &self,
        hpa: &HorizontalPodAutoscaler,
        policy: &SettingPolicy,
    ) -> Resolved {
        let mut resolver = Resolver {
            hpa,
            policy,
            settings: self.clone(),
            metrics: vec![MetricSettings::default(); hpa.spec.metrics.len()],
            own: AutoscalerSettings::default(),
            problems: Vec::new(),
        };
        resolver.unknown_names();
        for setting in SETTINGS {
            match &setting.target {
                Target::Autoscaler(apply) => resolver.autoscaler(setting, *apply),
                Target::Metrics(types, apply) => resolver.metrics(setting, types, *apply),
            }
        }
        resolver.finish()
    }

    /// The settings of an autoscaler that kube-controller-manager handles: those of `self`, because
    /// annotations and fields have no effect. [`AutoscalerSettings::ignored`] has the ignored
    /// settings that should prevent writes.
    #[must_use]
    pub fn for_built_in(self, hpa: &HorizontalPodAutoscaler, policy: &SettingPolicy) -> Self {
        let own = self.for_autoscaler(hpa, policy).settings;
        let ignored = IgnoredSettings { pause: own.pause != self.pause, dry_run: own.dry_run };
        let own = own.autoscaler_settings.as_deref();
        let problems = own.map(|own| own.problems.clone()).unwrap_or_default();
        let ignored_names = own.map(|own| own.applied_names.clone()).unwrap_or_default();
        let is_reported = ignored.is_any() || !problems.is_empty() || !ignored_names.is_empty();
        let own = AutoscalerSettings {
            problems,
            ignored,
            ignored_names,
            is_for_built_in: true,
            ..AutoscalerSettings::default()
        };
        Self { autoscaler_settings: is_reported.then(|| Arc::new(own)), ..self }
    }

    /// Whether kube-controller-manager ignores settings: see [`AutoscalerSettings::ignored`].
    #[must_use]
    pub fn has_ignored(&self) -> bool {
        let own = self.autoscaler_settings.as_ref();
        own.is_some_and(|own| own.ignored.is_any() || !own.ignored_names.is_empty())
    }

    /// Adds what else is known of kube-controller-manager to the warnings about settings that it
    /// ignores: for example, the holder of its lease.
    #[must_use]
    pub fn with_built_in_state(mut self, state: String) -> Self {
        if let Some(own) = &mut self.autoscaler_settings {
            Arc::make_mut(own).built_in_state = state;
        }
        self
    }
}

struct Resolver<'a> {
    hpa: &'a HorizontalPodAutoscaler,
    policy: &'a SettingPolicy,
    settings: Settings,
    metrics: Vec<MetricSettings>,
    own: AutoscalerSettings,
    problems: Vec<SettingProblem>,
}

type ApplyToMetric = fn(&mut MetricSettings, &Value);

impl<'a> Resolver<'a> {
    /// Names the first annotation that may be a misspelled setting, and counts the others.
    fn unknown_names(&mut self) {
        let names = self.hpa.metadata.annotations.keys();
        let mut unknown = names.filter_map(|annotation| unknown_name(annotation));
        let Some(first) = unknown.next() else { return };
        let first = go_text::cut(one_line(first).into_owned(), MAX_NAME_LEN);
        let others = match unknown.take(MAX_OTHER_NAMES + 1).count() {
            0 => String::new(),
            1 => ", nor is 1 other".to_owned(),
            count if count > MAX_OTHER_NAMES => {
                format!(", nor are more than {MAX_OTHER_NAMES} others")
            }
            count => format!(", nor are {count} others"),
        };
        let similar = most_similar(&first, SETTINGS.iter().map(|setting| setting.name));
        let similar = similar.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default();
        let place = Place::Annotation(format!("{DOMAIN}/{first}"));
        let message = format!("is not a setting{similar}{others}");
        self.problem(place, ProblemKind::UnknownName, &message);
    }

    fn autoscaler(&mut self, setting: &'static Setting, apply: fn(&mut Settings, &Value)) {
        let annotated = self.annotation(setting);
        let hpa = self.hpa;
        let field = hpa.spec.unknown.get(setting.field);
        if let (Some(_), Some(_)) = (annotated, field) {
            self.overridden(setting, format!("spec.{}", setting.field));
        }
        let (place, value) = if let Some(json) = field {
            (Place::Field(format!("spec.{}", setting.field)), setting.kind.read(json))
        } else if let Some(text) = annotated {
            (Place::Annotation(setting.annotation()), setting.kind.parse_annotation(text))
        } else {
            return;
        };
        if let Some(value) = self.checked(setting, place, value) {
            apply(&mut self.settings, &value);
            self.add_applied(setting, "", &value);
        }
    }

    /// The value, if it is valid and allowed.
    fn checked(
        &mut self,
        setting: &'static Setting,
        place: Place,
        value: Result<Value, String>,
    ) -> Option<Value> {
        if !self.policy.allowed.contains(&setting.name) {
            self.problem(place, ProblemKind::NotAllowed, "is not allowed by --allow-settings");
            return None;
        }
        match value {
            Ok(Value::Duration(period))
                if setting.name == "sync-period" && period < self.policy.min_sync_period =>
            {
                let message = format!(
                    "is {}, but must be at least that of --min-sync-period, {}, which holds",
                    duration_text(period),
                    duration_text(self.policy.min_sync_period)
                );
                self.problem(place, ProblemKind::Raised, &message);
                Some(Value::Duration(self.policy.min_sync_period))
            }
            Ok(value) => Some(value),
            Err(message) => {
                self.problem(place, ProblemKind::InvalidValue, &message);
                None
            }
        }
    }

    fn metrics(
        &mut self,
        setting: &'static Setting,
        types: &[MetricSourceType],
        apply: ApplyToMetric,
    ) {
        if let Some(text) = self.annotation(setting) {
            self.annotated_metrics(setting, types, apply, text);
        }
        let hpa = self.hpa;
        for (index, metric) in hpa.spec.metrics.iter().enumerate() {
            let Some(unknown) = source_fields(metric) else { continue };
            let Some(json) = unknown.get(setting.field) else { continue };
            if !types.contains(&metric.source_type) {
                continue;
            }
            let member = metric.source_type.member();
            let path = format!("spec.metrics[{index}].{member}.{}", setting.field);
            if self.annotation(setting).is_some() {
                self.overridden(setting, path.clone());
            }
            let value = setting.kind.read(json);
            if let Some(value) = self.checked(setting, Place::Field(path), value) {
                self.apply_to(setting, index, apply, &value);
            }
        }
    }

    fn annotated_metrics(
        &mut self,
        setting: &'static Setting,
        types: &[MetricSourceType],
        apply: ApplyToMetric,
        text: &str,
    ) {
        let place = || Place::Annotation(setting.annotation());
        let Some(by_metric) = setting.kind.by_metric(text) else {
            let Some(value) = self.checked(setting, place(), setting.kind.parse_annotation(text))
            else {
                return;
            };
            let mut has_metric = false;
            for (index, metric) in self.hpa.spec.metrics.iter().enumerate() {
                if types.contains(&metric.source_type) {
                    has_metric = true;
                    if let Some(settings) = self.metrics.get_mut(index) {
                        apply(settings, &value);
                    }
                }
            }
            if has_metric {
                self.add_applied(setting, "", &value);
            } else {
                let message = format!("has no effect: {}", no_metric(types));
                self.problem(place(), ProblemKind::NoSuchMetric, &message);
            }
            return;
        };
        for (name, json) in &by_metric {
            let indices = self.metrics_named(name, types);
            if indices.is_empty() {
                let message = format!("names {name:?}: {}", no_metric(types));
                self.problem(place(), ProblemKind::NoSuchMetric, &message);
                continue;
            }
            let value = setting.kind.parse_member(json);
            let Some(value) = self.checked(setting, place(), value) else { continue };
            for index in indices {
                self.apply_to(setting, index, apply, &value);
            }
        }
    }

    /// The metrics of these types with a name. A number is the index of a metric, for metrics that
    /// have the same name.
    fn metrics_named(&self, name: &str, types: &[MetricSourceType]) -> Vec<usize> {
        let metrics = self.hpa.spec.metrics.iter().enumerate();
        let metrics = metrics.filter(|(_, metric)| types.contains(&metric.source_type));
        let named = metrics.clone().filter(|(_, metric)| metric.metric_name() == name);
        let named: Vec<usize> = named.map(|(index, _)| index).collect();
        if !named.is_empty() {
            return named;
        }
        let index = name.parse().ok();
        metrics.map(|(index, _)| index).filter(|candidate| Some(*candidate) == index).collect()
    }

    fn apply_to(
        &mut self,
        setting: &'static Setting,
        index: usize,
        apply: ApplyToMetric,
        value: &Value,
    ) {
        if let Some(settings) = self.metrics.get_mut(index) {
            apply(settings, value);
            let name = self.hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
            self.add_applied(setting, name, value);
        }
    }

    /// Reports the value of a setting; `metric` is empty if it holds for the autoscaler or for all
    /// metrics.
    fn add_applied(&mut self, setting: &'static Setting, metric: &str, value: &Value) {
        if matches!(setting.name, "pause" | "dry-run") {
            return;
        }
        if !self.own.applied_names.contains(&setting.name) {
            self.own.applied_names.push(setting.name);
        }
        let of_metric = if metric.is_empty() { "" } else { " for " };
        let text = format!("{}={value}{of_metric}{metric}", setting.name);
        append(&mut self.own.applied, ", ", &go_text::cut(text, MAX_SETTING_LEN));
    }

    fn annotation(&self, setting: &Setting) -> Option<&'a str> {
        let annotations = &self.hpa.metadata.annotations;
        // The common case.
        if annotations.is_empty() {
            return None;
        }
        annotations.get(&setting.annotation()).map(String::as_str)
    }

    fn overridden(&mut self, setting: &Setting, field: String) {
        let message = format!("is ignored: {field} has precedence");
        let place = Place::Annotation(setting.annotation());
        self.problem(place, ProblemKind::Overridden, &message);
    }

    fn problem(&mut self, place: Place, kind: ProblemKind, message: &str) {
        self.problems.push(SettingProblem { place, kind, message: printable(message) });
    }

    fn finish(self) -> Resolved {
        let Self { mut settings, metrics, mut own, problems, .. } = self;
        let is_default = metrics.iter().all(|metric| *metric == MetricSettings::default());
        settings.metrics = (!is_default).then(|| Arc::from(metrics));
        // `hpa lint` reports the precedence of a field over an annotation.
        for problem in problems.iter().filter(|problem| problem.kind != ProblemKind::Overridden) {
            append(&mut own.problems, "; ", &problem.to_string());
        }
        own.problems = go_text::cut(own.problems, MAX_TEXT_LEN);
        own.applied = go_text::cut(own.applied, MAX_TEXT_LEN);
        settings.autoscaler_settings =
            (own != AutoscalerSettings::default()).then(|| Arc::new(own));
        Resolved { settings, problems }
    }
}

/// The name of an annotation of the domain that is not a setting.
fn unknown_name(annotation: &str) -> Option<&str> {
    let (domain, name) = annotation.split_once('/')?;
    (domain == DOMAIN && Setting::named(name).is_none()).then_some(name)
}

/// Selects the annotations that a cache of objects needs.
#[derive(Debug, Default)]
pub struct AnnotationFilter {
    unknown: usize,
}

impl AnnotationFilter {
    /// Whether to keep an annotation: settings, and as many unknown names as are counted.
    pub fn keeps(&mut self, annotation: &str) -> bool {
        if unknown_name(annotation).is_none() {
            return Setting::of_annotation(annotation).is_some();
        }
        self.unknown += 1;
        self.unknown <= MAX_OTHER_NAMES + 2
    }

    /// The needed part of the value: nothing for an unknown name, and for a long value enough to be
    /// rejected for its length.
    pub fn limited<'a>(annotation: &str, value: &'a str) -> &'a str {
        if unknown_name(annotation).is_some() { "" } else { limited_annotation(value) }
    }
}

fn append(list: &mut String, separator: &str, text: &str) {
    if !list.is_empty() {
        list.push_str(separator);
    }
    list.push_str(text);
}

/// The unknown fields of the member that the metric's type names.
fn source_fields(metric: &MetricSpec) -> Option<&UnknownFields> {
    Some(match metric.source_type {
        MetricSourceType::Resource => &metric.resource.as_ref()?.unknown,
        MetricSourceType::ContainerResource => &metric.container_resource.as_ref()?.unknown,
        MetricSourceType::Pods => &metric.pods.as_ref()?.unknown,
        MetricSourceType::Object => &metric.object.as_ref()?.unknown,
        MetricSourceType::External => &metric.external.as_ref()?.unknown,
        MetricSourceType::Other(_) => return None,
    })
}

fn no_metric(types: &[MetricSourceType]) -> String {
    let names: Vec<_> = types.iter().map(MetricSourceType::as_str).collect();
    format!("the autoscaler has no such metric of type {}", names.join(", "))
}

/// The text in one line, because an error can quote any text, and with a limited length.
fn printable(text: &str) -> String {
    go_text::cut(one_line(text).into_owned(), MAX_MESSAGE_LEN)
}

/// The start of an annotation's value, long enough to be rejected for its length.
fn limited_annotation(value: &str) -> &str {
    let mut end = value.len().min(MAX_ANNOTATION_LEN + 1);
    while !value.is_char_boundary(end) {
        end += 1;
    }
    value.get(..end).unwrap_or_default()
}
