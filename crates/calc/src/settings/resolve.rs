//! The effective settings of one autoscaler: the flags, then its annotations, then its fields.

use std::sync::Arc;

use jiff::SignedDuration;

use super::{
    Settings,
    metric::MetricSettings,
    summary::{ProblemKind, SettingPlace, SettingProblem, SettingsSummary},
    table::{DOMAIN, SETTINGS, Scope, Setting},
    value::{SettingValue, ValueKind, duration_text, limited_annotation},
};
use crate::{
    api::{
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSourceType, MetricSpec,
        UnknownFields,
    },
    explain::one_line,
    go_text,
    history::Direction,
    suggestions::most_similar,
};

/// The maximum length of a message about a value, in characters.
const MAX_MESSAGE_LEN: usize = 300;
/// The maximum length of one setting in [`SettingsSummary::applied`], in characters.
const MAX_SETTING_LEN: usize = 100;
/// The maximum length of the name of an annotation in a message, in characters. The API server
/// allows 63 after the domain.
const MAX_NAME_LEN: usize = 100;
/// The message about unknown names of annotations has the first name and the number of others. It
/// doesn't count others beyond this number.
const MAX_OTHER_NAMES: usize = 16;
/// The maximum length of [`SettingsSummary::problems`] and of [`SettingsSummary::applied`],
/// in characters: about the limit of an event's message, which is 1024 bytes.
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

/// The effective settings of an autoscaler, and the problems with its own settings.
#[derive(Clone, Debug)]
pub struct ResolvedSettings {
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
    /// This parses the annotations and fields of all settings, so call it when the object changes,
    /// not in each reconcile.
    pub fn for_autoscaler(
        &self,
        hpa: &HorizontalPodAutoscaler,
        policy: &SettingPolicy,
    ) -> ResolvedSettings {
        let mut resolver = Resolver {
            hpa,
            policy,
            settings: self.clone(),
            metric_settings: vec![MetricSettings::default(); hpa.spec.metrics.len()],
            summary: SettingsSummary::default(),
            problems: Vec::new(),
        };
        resolver.report_unknown_names();
        for setting in SETTINGS {
            match setting.scope {
                Scope::Autoscaler(apply) => resolver.resolve_for_autoscaler(setting, apply),
                Scope::Metrics(types, apply) => {
                    resolver.resolve_for_metrics(ScopedSetting { setting, types, apply });
                }
            }
        }
        resolver.finish()
    }
}

struct Resolver<'a> {
    hpa: &'a HorizontalPodAutoscaler,
    policy: &'a SettingPolicy,
    settings: Settings,
    /// By the index of the metric in the spec.
    metric_settings: Vec<MetricSettings>,
    summary: SettingsSummary,
    problems: Vec<SettingProblem>,
}

/// A setting with the parts of its [`Scope::Metrics`].
#[derive(Clone, Copy)]
struct ScopedSetting {
    setting: &'static Setting,
    types: &'static [MetricSourceType],
    apply: fn(&mut MetricSettings, &SettingValue),
}

impl<'a> Resolver<'a> {
    /// Names the first annotation that may be a misspelled setting, and counts the others.
    fn report_unknown_names(&mut self) {
        let names = self.hpa.metadata.annotations.keys();
        let mut unknown = names.filter_map(|annotation| unknown_name(annotation));
        let Some(first) = unknown.next() else { return };
        let first = go_text::truncate(one_line(first).into_owned(), MAX_NAME_LEN);
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
        let place = SettingPlace::Annotation(format!("{DOMAIN}/{first}"));
        let message = format!("is not a setting{similar}{others}");
        self.report_problem(place, ProblemKind::UnknownName, &message);
    }

    fn resolve_for_autoscaler(
        &mut self,
        setting: &'static Setting,
        apply: fn(&mut Settings, &SettingValue),
    ) {
        let annotated = self.annotation(setting);
        let hpa = self.hpa;
        let field = hpa.spec.unknown.get(setting.field);
        if annotated.is_some() && field.is_some() {
            self.report_overridden(setting, format!("spec.{}", setting.field));
        }
        let (place, value) = if let Some(json) = field {
            (SettingPlace::Field(format!("spec.{}", setting.field)), setting.kind.parse_field(json))
        } else if let Some(text) = annotated {
            (SettingPlace::Annotation(setting.annotation()), setting.kind.parse_annotation(text))
        } else {
            return;
        };
        let Some(value) = self.accept(setting, place.clone(), value) else { return };
        if let Some(overriding) = overriding_behavior(setting, &hpa.spec) {
            let message = format!("has no effect: {overriding} precedence");
            self.report_problem(place, ProblemKind::Overridden, &message);
            return;
        }
        apply(&mut self.settings, &value);
        self.add_applied(setting, "", &value);
    }

    /// The value to apply, or `None` if it is invalid or not allowed. A sync period that is too
    /// short becomes the shortest one. Reports the problems of the value.
    fn accept(
        &mut self,
        setting: &'static Setting,
        place: SettingPlace,
        value: Result<SettingValue, String>,
    ) -> Option<SettingValue> {
        if !self.policy.allowed.contains(&setting.name) {
            self.report_problem(
                place,
                ProblemKind::NotAllowed,
                "is not allowed by --allow-settings",
            );
            return None;
        }
        match value {
            Ok(SettingValue::Duration(period))
                if setting.name == "sync-period" && period < self.policy.min_sync_period =>
            {
                let message = format!(
                    "is {}, but --min-sync-period is {}, which is used instead",
                    duration_text(period),
                    duration_text(self.policy.min_sync_period)
                );
                self.report_problem(place, ProblemKind::Raised, &message);
                Some(SettingValue::Duration(self.policy.min_sync_period))
            }
            Ok(value) => Some(value),
            Err(mut message) => {
                message += &self.raised_minimum_text(setting);
                self.report_problem(place, ProblemKind::InvalidValue, &message);
                None
            }
        }
    }

    /// The end of a message about an invalid sync period, if the operator's minimum is above that
    /// of the setting. Otherwise empty.
    fn raised_minimum_text(&self, setting: &Setting) -> String {
        let min = self.policy.min_sync_period;
        match setting.kind {
            ValueKind::Duration { min: of_setting, .. }
                if setting.name == "sync-period" && min > SignedDuration::from_secs(of_setting) =>
            {
                format!(" (at least {} by --min-sync-period)", duration_text(min))
            }
            _ => String::new(),
        }
    }

    fn resolve_for_metrics(&mut self, scoped: ScopedSetting) {
        let ScopedSetting { setting, types, .. } = scoped;
        let annotated = self.annotation(setting);
        if let Some(text) = annotated {
            self.apply_annotation_to_metrics(scoped, text);
        }
        let hpa = self.hpa;
        for (index, metric) in hpa.spec.metrics.iter().enumerate() {
            let Some(unknown) = unknown_source_fields(metric) else { continue };
            let Some(json) = unknown.get(setting.field) else { continue };
            if !types.contains(&metric.source_type) {
                continue;
            }
            let member = metric.source_type.member().unwrap_or_default();
            let path = format!("spec.metrics[{index}].{member}.{}", setting.field);
            if annotated.is_some() {
                self.report_overridden(setting, path.clone());
            }
            let value = setting.kind.parse_field(json);
            if let Some(value) = self.accept(setting, SettingPlace::Field(path), value) {
                self.apply_to_metric(scoped, index, &value);
            }
        }
    }

    fn apply_annotation_to_metrics(&mut self, scoped: ScopedSetting, text: &str) {
        let ScopedSetting { setting, types, .. } = scoped;
        let place = || SettingPlace::Annotation(setting.annotation());
        let Some(by_metric) = setting.kind.values_by_metric(text) else {
            self.apply_annotation_to_all_metrics(scoped, text);
            return;
        };
        for (name, json) in &by_metric {
            let indices = self.metrics_named(name, types);
            if indices.is_empty() {
                let message = format!("names {name:?}: {}", no_metric(types));
                self.report_problem(place(), ProblemKind::NoSuchMetric, &message);
                continue;
            }
            let value = setting.kind.parse_metric_value(json);
            let Some(value) = self.accept(setting, place(), value) else { continue };
            for index in indices {
                self.apply_to_metric(scoped, index, &value);
            }
        }
    }

    /// Applies the value of an annotation without names of metrics.
    fn apply_annotation_to_all_metrics(&mut self, scoped: ScopedSetting, text: &str) {
        let ScopedSetting { setting, types, apply } = scoped;
        let place = || SettingPlace::Annotation(setting.annotation());
        let value = setting.kind.parse_annotation(text);
        let Some(value) = self.accept(setting, place(), value) else { return };
        let metrics = self.hpa.spec.metrics.iter().zip(&mut self.metric_settings);
        let mut has_metric = false;
        for (_, settings) in metrics.filter(|(metric, _)| types.contains(&metric.source_type)) {
            apply(settings, &value);
            has_metric = true;
        }
        if has_metric {
            self.add_applied(setting, "", &value);
        } else {
            let message = format!("has no effect: {}", no_metric(types));
            self.report_problem(place(), ProblemKind::NoSuchMetric, &message);
        }
    }

    /// The indices of the metrics of these types with this name. If there are none, the name may be
    /// an index itself, which can single out one of several metrics with the same name.
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

    fn apply_to_metric(&mut self, scoped: ScopedSetting, index: usize, value: &SettingValue) {
        if let Some(settings) = self.metric_settings.get_mut(index) {
            (scoped.apply)(settings, value);
            let name = self.hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
            self.add_applied(scoped.setting, name, value);
        }
    }

    /// Adds a value to the summary, except that of `pause` and `dry-run`. `metric` is empty if the
    /// value applies to the autoscaler or to all metrics of the setting's types.
    fn add_applied(&mut self, setting: &'static Setting, metric: &str, value: &SettingValue) {
        if matches!(setting.name, "pause" | "dry-run") {
            return;
        }
        if !self.summary.applied_names.contains(&setting.name) {
            self.summary.applied_names.push(setting.name);
        }
        let of_metric = if metric.is_empty() { "" } else { " for " };
        let text = format!("{}={value}{of_metric}{metric}", setting.name);
        append(&mut self.summary.applied, ", ", &go_text::truncate(text, MAX_SETTING_LEN));
    }

    fn annotation(&self, setting: &Setting) -> Option<&'a str> {
        let annotations = &self.hpa.metadata.annotations;
        // Most autoscalers have no annotations. For them, don't allocate the annotation's name.
        if annotations.is_empty() {
            return None;
        }
        annotations.get(&setting.annotation()).map(String::as_str)
    }

    fn report_overridden(&mut self, setting: &Setting, field: String) {
        let message = format!("is ignored: {field} has precedence");
        let place = SettingPlace::Annotation(setting.annotation());
        self.report_problem(place, ProblemKind::Overridden, &message);
    }

    fn report_problem(&mut self, place: SettingPlace, kind: ProblemKind, message: &str) {
        self.problems.push(SettingProblem { place, kind, message: printable(message) });
    }

    fn finish(self) -> ResolvedSettings {
        let Self { mut settings, metric_settings, mut summary, problems, .. } = self;
        let is_default = metric_settings.iter().all(|metric| *metric == MetricSettings::default());
        settings.metrics = (!is_default).then(|| Arc::from(metric_settings));
        // `hpa lint` reports that a field has precedence over a setting.
        for problem in problems.iter().filter(|problem| problem.kind != ProblemKind::Overridden) {
            append(&mut summary.problems, "; ", &problem.to_string());
        }
        summary.problems = go_text::truncate(summary.problems, MAX_TEXT_LEN);
        summary.applied = go_text::truncate(summary.applied, MAX_TEXT_LEN);
        settings.summary = (summary != SettingsSummary::default()).then(|| Arc::new(summary));
        ResolvedSettings { settings, problems }
    }
}

/// The fields of `behavior` that override a setting completely, with a verb.
fn overriding_behavior(
    setting: &Setting,
    spec: &HorizontalPodAutoscalerSpec,
) -> Option<&'static str> {
    let (up, down) = (spec.scaling_rules(Direction::Up), spec.scaling_rules(Direction::Down));
    let (is_set, text) = match setting.name {
        "downscale-stabilization" => (
            down?.stabilization_window_seconds.is_some(),
            "spec.behavior.scaleDown.stabilizationWindowSeconds has",
        ),
        "tolerance" => (
            up?.tolerance.is_some() && down?.tolerance.is_some(),
            "the tolerances in spec.behavior have",
        ),
        _ => return None,
    };
    is_set.then_some(text)
}

/// The name of an annotation of the domain that is not a setting.
fn unknown_name(annotation: &str) -> Option<&str> {
    let (domain, name) = annotation.split_once('/')?;
    (domain == DOMAIN && Setting::named(name).is_none()).then_some(name)
}

/// Selects those annotations of one object that a cache needs.
#[derive(Debug, Default)]
pub struct AnnotationFilter {
    unknown_name_count: usize,
}

impl AnnotationFilter {
    /// Returns whether to keep the next annotation of an object: all settings, and as many unknown
    /// names as the message about them depends on. Counts the unknown names, so each object needs
    /// a filter of its own.
    pub fn accept(&mut self, annotation: &str) -> bool {
        if unknown_name(annotation).is_none() {
            return Setting::of_annotation(annotation).is_some();
        }
        self.unknown_name_count += 1;
        self.unknown_name_count <= MAX_OTHER_NAMES + 2
    }

    /// The part of a value that a cache needs: nothing for an unknown name, and for a value that is
    /// too long, enough to be rejected for its length.
    pub fn truncate_value<'a>(annotation: &str, value: &'a str) -> &'a str {
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
fn unknown_source_fields(metric: &MetricSpec) -> Option<&UnknownFields> {
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

/// The text in one line and with a limited length: an error can quote any text of a user.
fn printable(text: &str) -> String {
    go_text::truncate(one_line(text).into_owned(), MAX_MESSAGE_LEN)
}
