//! The table of the settings that one autoscaler can have.
//!
//! Each row is a setting. The annotation, the field of the custom API with its schema, the checks
//! of `hpa lint` and `hpa convert`, the documentation and the output of `hpa explain` are derived
//! from the row.

use serde_json::{Map, Value as Json};

use super::{
    Settings,
    forecast::ForecastMode,
    metric::{
        Aggregate, MetricSettings, MissingRequests, PodSelection, RequestsSource, Rollout,
        UtilizationOf,
    },
    value::{SettingValue, ValueKind},
};
use crate::{
    api::MetricSourceType::{self, ContainerResource, External, Object, Pods, Resource},
    pause::Pause,
};

/// The domain of the annotations.
pub const DOMAIN: &str = "autoscaling.hpa-rs.dev";

/// A setting of one autoscaler, or of one of its metrics.
#[derive(Debug)]
pub struct Setting {
    /// The name of the annotation, without the domain.
    pub name: &'static str,
    /// The field of the custom API: a member of `spec`, or of the metric's source.
    pub field: &'static str,
    /// The effect of the setting, in one sentence.
    pub summary: &'static str,
    /// The value or the behavior without the setting.
    pub default: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) scope: Scope,
}

/// The objects that a setting applies to, and the function that applies a value to one of them.
#[derive(Debug)]
pub(crate) enum Scope {
    /// The autoscaler.
    Autoscaler(fn(&mut Settings, &SettingValue)),
    /// Metrics of these types.
    Metrics(&'static [MetricSourceType], fn(&mut MetricSettings, &SettingValue)),
}

use Scope::{Autoscaler, Metrics};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

// The types of metrics that a setting can apply to.
const RESOURCES: &[MetricSourceType] = &[Resource, ContainerResource];
const OF_PODS: &[MetricSourceType] = &[Resource, ContainerResource, Pods];
const WITHOUT_PODS: &[MetricSourceType] = &[Object, External];
const NOT_RESOURCES: &[MetricSourceType] = &[Pods, Object, External];
const ALL: &[MetricSourceType] = &[Resource, ContainerResource, Pods, Object, External];

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "pause",
        field: "pause",
        summary: "The target is not scaled, or not in one direction, not even to its bounds.",
        default: "false",
        kind: ValueKind::Choice(&[
            ("true", "true"),
            ("up", "up"),
            ("down", "down"),
            ("false", "false"),
        ]),
        scope: Autoscaler(|settings, value| {
            if let SettingValue::Choice(word) = value {
                settings.pause = word.parse().unwrap_or(Pause::NONE);
            }
        }),
    },
    Setting {
        name: "dry-run",
        field: "dryRun",
        summary: "Nothing is written for the autoscaler; its decisions are compared with those of \
            another controller.",
        default: "--dry-run",
        kind: ValueKind::Switch,
        scope: Autoscaler(|settings, value| {
            settings.dry_run = *value == SettingValue::Switch(true);
        }),
    },
    Setting {
        name: "sync-period",
        field: "syncPeriodSeconds",
        summary: "The time from the end of a reconcile to the next one (KEP-6003).",
        default: "--horizontal-pod-autoscaler-sync-period",
        kind: ValueKind::Duration { min: 3, max: HOUR },
        scope: Autoscaler(|settings, value| settings.sync_period = Some(value.duration())),
    },
    Setting {
        name: "pods",
        field: "selectionStrategy",
        summary: "Which of the pods that the target's selector matches count: all of them, or only \
            those that the target owns (KEP-5325).",
        default: "selected",
        kind: ValueKind::Choice(&[("selected", "LabelSelector"), ("owned", "OwnerReferences")]),
        scope: Autoscaler(|settings, value| {
            settings.pods = match value {
                SettingValue::Choice("owned") => PodSelection::Owned,
                _ => PodSelection::Selected,
            };
        }),
    },
    Setting {
        name: "rollout",
        field: "rollout",
        summary: "Whether pods beyond spec.replicas, as during a rollout, can raise the desired \
            replicas (kubernetes#138505).",
        default: "count-surge",
        kind: ValueKind::Choice(&[("count-surge", "CountSurge"), ("ignore-surge", "IgnoreSurge")]),
        scope: Autoscaler(|settings, value| {
            settings.rollout = match value {
                SettingValue::Choice("ignore-surge") => Rollout::IgnoreSurge,
                _ => Rollout::CountSurge,
            };
        }),
    },
    Setting {
        name: "bounds",
        field: "bounds",
        summary: "A schedule of minReplicas and maxReplicas. While an entry holds, its bounds \
            replace those of the spec.",
        default: "the bounds of the spec at all times",
        kind: ValueKind::Bounds,
        scope: Autoscaler(|settings, value| {
            if let SettingValue::Bounds(bounds) = value {
                settings.bounds = Some(bounds.clone());
            }
        }),
    },
    Setting {
        name: "zero-after",
        field: "zeroAfterSeconds",
        summary: "The target is scaled to zero only after the metrics have asked for it for this \
            long.",
        default: "0s",
        kind: ValueKind::Duration { min: 0, max: DAY },
        scope: Autoscaler(|settings, value| settings.zero_after = value.duration()),
    },
    Setting {
        name: "forecast",
        field: "forecast",
        summary: "Whether forecasts of the load can raise the desired replicas (scale), are only \
            reported (observe), or are not made (off). They count only while a check on the past \
            two weeks shows that they would have helped.",
        default: "off",
        kind: ValueKind::Choice(&[("off", "Off"), ("observe", "Observe"), ("scale", "Scale")]),
        scope: Autoscaler(|settings, value| {
            settings.forecasts.mode = match value {
                SettingValue::Choice("observe") => ForecastMode::Observe,
                SettingValue::Choice("scale") => ForecastMode::Scale,
                _ => ForecastMode::Off,
            };
        }),
    },
    Setting {
        name: "forecast-horizon",
        field: "forecastHorizonSeconds",
        summary: "How far ahead the load is forecast.",
        default: "the measured time until pods of a scale-up are ready, plus the age of the \
            metric and a sync period",
        kind: ValueKind::Duration { min: 30, max: 6 * HOUR },
        scope: Autoscaler(|settings, value| settings.forecasts.horizon = Some(value.duration())),
    },
    Setting {
        name: "forecast-quantile",
        field: "forecastQuantile",
        summary: "The probability with which the load should not exceed its forecast. A higher \
            one costs more pods and has less overload.",
        default: "0.8",
        kind: ValueKind::Quantity { max: 1 },
        scope: Autoscaler(|settings, value| {
            settings.forecasts.quantile = Some(value.quantity().as_f64());
        }),
    },
    Setting {
        name: "tolerance",
        field: "tolerance",
        summary: "The ratio of usage to target may differ from 1 by this fraction without a \
            change. A tolerance in the behavior has precedence.",
        default: "--horizontal-pod-autoscaler-tolerance",
        kind: ValueKind::Quantity { max: 1 },
        scope: Autoscaler(|settings, value| settings.tolerance = value.quantity().as_f64()),
    },
    Setting {
        name: "downscale-stabilization",
        field: "downscaleStabilizationSeconds",
        summary: "The stabilization window for scaling down. One in the behavior has precedence.",
        default: "--horizontal-pod-autoscaler-downscale-stabilization",
        kind: ValueKind::Duration { min: 0, max: HOUR },
        scope: Autoscaler(|settings, value| settings.downscale_stabilization = value.duration()),
    },
    Setting {
        name: "cpu-initialization-period",
        field: "cpuInitializationPeriodSeconds",
        summary: "For this long after a pod's start, a CPU sample of the pod counts only if the \
            pod is ready and was ready during the sample's whole window.",
        default: "--horizontal-pod-autoscaler-cpu-initialization-period",
        kind: ValueKind::Duration { min: 0, max: HOUR },
        scope: Autoscaler(|settings, value| settings.cpu_initialization_period = value.duration()),
    },
    Setting {
        name: "initial-readiness-delay",
        field: "initialReadinessDelaySeconds",
        summary: "A pod that became unready within this time after its start counts as never \
            having been ready.",
        default: "--horizontal-pod-autoscaler-initial-readiness-delay",
        kind: ValueKind::Duration { min: 0, max: HOUR },
        scope: Autoscaler(|settings, value| settings.initial_readiness_delay = value.duration()),
    },
    Setting {
        name: "fallback",
        field: "fallback",
        summary: "The metric's proposal after a long failure (KEP-5679).",
        default: "no proposal: the metric fails",
        kind: ValueKind::Fallback,
        scope: Metrics(NOT_RESOURCES, |metric, value| {
            if let SettingValue::Fallback(fallback) = value {
                metric.fallback = Some(*fallback);
            }
        }),
    },
    Setting {
        name: "activation",
        field: "activationValue",
        summary: "At zero replicas, the metric scales up only if its value is above this one.",
        default: "0",
        kind: ValueKind::Quantity { max: i64::MAX },
        scope: Metrics(WITHOUT_PODS, |metric, value| {
            metric.activation = Some(value.quantity().milli_value());
        }),
    },
    Setting {
        name: "max-sample-age",
        field: "maxSampleAgeSeconds",
        summary: "Samples that are older are missing samples.",
        default: "samples of any age count",
        kind: ValueKind::Duration { min: 1, max: HOUR },
        scope: Metrics(ALL, |metric, value| metric.max_sample_age = Some(value.duration())),
    },
    Setting {
        name: "aggregate",
        field: "aggregate",
        summary: "How the samples of the ready pods become one value: their mean, a percentile or \
            the maximum.",
        default: "average",
        kind: ValueKind::Choice(&[
            ("average", "average"),
            ("p90", "p90"),
            ("p95", "p95"),
            ("p99", "p99"),
            ("max", "max"),
        ]),
        scope: Metrics(OF_PODS, |metric, value| {
            metric.aggregate = match value {
                SettingValue::Choice("p90") => Aggregate::P90,
                SettingValue::Choice("p95") => Aggregate::P95,
                SettingValue::Choice("p99") => Aggregate::P99,
                SettingValue::Choice("max") => Aggregate::Max,
                _ => Aggregate::Average,
            };
        }),
    },
    Setting {
        name: "utilization-of",
        field: "utilizationOf",
        summary: "The base of averageUtilization.",
        default: "requests",
        kind: ValueKind::Choice(&[("requests", "Requests"), ("limits", "Limits")]),
        scope: Metrics(RESOURCES, |metric, value| {
            metric.utilization_of = match value {
                SettingValue::Choice("limits") => UtilizationOf::Limits,
                _ => UtilizationOf::Requests,
            };
        }),
    },
    Setting {
        name: "requests",
        field: "requests",
        summary: "Which requests and limits count during an in-place resize: those of the pod's \
            spec, or those that the kubelet has applied (kubernetes#142155).",
        default: "spec",
        kind: ValueKind::Choice(&[("spec", "Spec"), ("actual", "Actual")]),
        scope: Metrics(RESOURCES, |metric, value| {
            metric.requests = match value {
                SettingValue::Choice("actual") => RequestsSource::Actual,
                _ => RequestsSource::Spec,
            };
        }),
    },
    Setting {
        name: "missing-requests",
        field: "missingRequests",
        summary: "What happens if a pod doesn't request the resource: the metric fails, or the pod \
            is left out (kubernetes#79365).",
        default: "fail",
        kind: ValueKind::Choice(&[("fail", "Fail"), ("skip-pod", "SkipPod")]),
        scope: Metrics(RESOURCES, |metric, value| {
            metric.missing_requests = match value {
                SettingValue::Choice("skip-pod") => MissingRequests::SkipPod,
                _ => MissingRequests::Fail,
            };
        }),
    },
];

impl Setting {
    /// The setting with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// The setting of an annotation.
    pub fn of_annotation(annotation: &str) -> Option<&'static Self> {
        let (domain, name) = annotation.split_once('/')?;
        (domain == DOMAIN).then(|| Self::named(name)).flatten()
    }

    /// The annotation: the domain and the name.
    pub fn annotation(&self) -> String {
        format!("{DOMAIN}/{}", self.name)
    }

    /// The types of the metrics that the setting applies to. `None` if it applies to the
    /// autoscaler.
    pub fn metric_types(&self) -> Option<&'static [MetricSourceType]> {
        match self.scope {
            Autoscaler(_) => None,
            Metrics(types, _) => Some(types),
        }
    }

    /// The allowed values of the annotation, as the text after "must be".
    pub fn expected(&self) -> String {
        self.kind.expected()
    }

    /// A value of the annotation that a reader can copy.
    pub fn example(&self) -> &'static str {
        self.kind.example()
    }

    /// Converts the text of an annotation that doesn't name metrics to the value of the field.
    pub fn annotation_to_field(&self, text: &str) -> Result<Json, String> {
        self.kind.parse(text).map(|value| value.to_field(self.kind))
    }

    /// The values of an annotation by the name or index of a metric. `None` if the annotation has
    /// one value for all metrics.
    pub fn values_by_metric(&self, text: &str) -> Option<Map<String, Json>> {
        self.kind.values_by_metric(text)
    }

    /// Converts one value of [`Setting::values_by_metric`] to the value of the field.
    pub fn metric_value_to_field(&self, value: &Json) -> Result<Json, String> {
        self.kind.parse_metric_value(value).map(|value| value.to_field(self.kind))
    }

    /// Converts the value of a field to one value of [`Setting::values_by_metric`].
    pub fn field_to_metric_value(&self, field: &Json) -> Result<Json, String> {
        let value = self.kind.parse_field(field)?;
        Ok(if field.is_object() { field.clone() } else { value.to_string().into() })
    }

    /// Converts the value of a field to the text of an annotation.
    pub fn field_to_annotation(&self, field: &Json) -> Result<String, String> {
        self.kind.parse_field(field).map(|value| value.to_string())
    }

    /// The schema of the field, for a CustomResourceDefinition.
    pub fn schema(&self) -> Json {
        let mut schema = self.kind.schema();
        if let Some(schema) = schema.as_object_mut() {
            let description = format!("{} The default is {}.", self.summary, self.default);
            schema.insert("description".to_owned(), description.into());
        }
        schema
    }
}
