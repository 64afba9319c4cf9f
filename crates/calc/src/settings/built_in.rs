//! The settings of an autoscaler that kube-controller-manager handles. It ignores annotations and
//! fields.

use std::sync::Arc;

use super::{
    Settings,
    resolve::SettingPolicy,
    summary::{IgnoredSettings, SettingsSummary},
};
use crate::api::{ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler};

impl Settings {
    /// The settings of an autoscaler that kube-controller-manager handles: those of `self`, because
    /// annotations and fields have no effect. [`SettingsSummary::ignored`] has the ignored settings
    /// that would prevent writes. [`Settings::scale_from_any_zero`] is on if a version before 1.36
    /// stored the status.
    #[must_use]
    pub fn for_kube_controller_manager(
        self,
        hpa: &HorizontalPodAutoscaler,
        policy: &SettingPolicy,
    ) -> Self {
        let resolved = self.for_autoscaler(hpa, policy).settings;
        let ignored =
            IgnoredSettings { pause: resolved.pause != self.pause, dry_run: resolved.dry_run };
        let SettingsSummary { problems, applied_names: ignored_names, .. } =
            resolved.summary.as_deref().cloned().unwrap_or_default();
        let summary = SettingsSummary {
            problems,
            ignored,
            ignored_names,
            may_be_built_in: true,
            ..SettingsSummary::default()
        };
        Self {
            summary: Some(Arc::new(summary)),
            scale_from_any_zero: is_at_unmarked_zero(hpa),
            ..self
        }
    }

    /// Whether kube-controller-manager ignores settings of the autoscaler. `false` unless these are
    /// settings [for it](Self::for_kube_controller_manager).
    #[must_use]
    pub fn has_ignored_settings(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| {
            summary.ignored != IgnoredSettings::default() || !summary.ignored_names.is_empty()
        })
    }

    /// Whether the autoscaler asks for a dry run, even if kube-controller-manager handles it and
    /// ignores that.
    #[must_use]
    pub fn asks_for_dry_run(&self) -> bool {
        self.dry_run || self.summary.as_ref().is_some_and(|summary| summary.ignored.dry_run)
    }

    /// Whether kube-controller-manager handles the autoscaler for certain. If so, metrics are read
    /// from the metrics APIs only.
    #[must_use]
    pub fn is_for_built_in(&self) -> bool {
        let summary = self.summary.as_ref();
        summary.is_some_and(|one| one.may_be_built_in && !one.is_controller_unknown)
    }

    /// Marks settings [for kube-controller-manager](Self::for_kube_controller_manager) as those of
    /// an autoscaler that hpa-rs may handle instead: the warnings say what each controller would
    /// do.
    #[must_use]
    pub fn with_unknown_controller(self) -> Self {
        self.with_changed_summary(|summary| summary.is_controller_unknown = true)
    }

    /// Marks settings [for kube-controller-manager](Self::for_kube_controller_manager) as those of
    /// an autoscaler whose status hpa-rs stored last: the warnings don't name
    /// kube-controller-manager as the writer.
    #[must_use]
    pub fn with_status_of_hpa_rs(self) -> Self {
        self.with_changed_summary(|summary| summary.is_status_of_hpa_rs = true)
    }

    /// Adds the state of kube-controller-manager, for example the holder of its lease, to the
    /// warnings about settings that it ignores.
    #[must_use]
    pub fn with_built_in_state(self, state: String) -> Self {
        self.with_changed_summary(|summary| summary.built_in_state = state)
    }

    fn with_changed_summary(mut self, change: impl FnOnce(&mut SettingsSummary)) -> Self {
        if let Some(summary) = &mut self.summary {
            change(Arc::make_mut(summary));
        }
        self
    }
}

/// Whether the status shows that the target of an active autoscaler is at zero replicas without
/// `ScaledToZero=True`. Only kube-controller-manager before 1.36 stores this: later versions set
/// that condition when they scale to zero, and report `ScalingDisabled` at any other zero.
fn is_at_unmarked_zero(hpa: &HorizontalPodAutoscaler) -> bool {
    let status = &hpa.status;
    let Some(active) = status.condition(&ConditionType::ScalingActive) else { return false };
    let was_at_zero =
        status.current_replicas == 0 && active.reason != ConditionReason::ScalingDisabled;
    let scaled_to_zero = status.desired_replicas == 0 && active.status == ConditionStatus::True;
    hpa.spec.effective_min_replicas() == 0
        && (was_at_zero || scaled_to_zero)
        && !status.is_true(&ConditionType::ScaledToZero)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn active(status: &str, reason: &str) -> Value {
        json!({ "type": "ScalingActive", "status": status, "reason": reason })
    }

    fn scaled_to_zero(status: &str) -> Value {
        json!({ "type": "ScaledToZero", "status": status, "reason": "ScaledToZero" })
    }

    #[rstest]
    #[case::at_zero(0, [0, 0], vec![active("True", "ValidMetricFound")], true)]
    #[case::just_scaled_to_zero(0, [1, 0], vec![active("True", "ValidMetricFound")], true)]
    #[case::metric_fails(0, [0, 0], vec![active("False", "FailedGetExternalMetric")], true)]
    #[case::disabled(0, [0, 0], vec![active("False", "ScalingDisabled")], false)]
    #[case::just_scaled_by_hand(0, [3, 3], vec![active("True", "ValidMetricFound")], false)]
    #[case::never_decided(0, [3, 0], vec![active("False", "FailedGetExternalMetric")], false)]
    #[case::with_the_condition(
        0,
        [0, 0],
        vec![active("True", "ValidMetricFound"), scaled_to_zero("True")],
        false
    )]
    #[case::minimum_above_zero(1, [0, 0], vec![active("True", "ValidMetricFound")], false)]
    #[case::new(0, [0, 0], Vec::new(), false)]
    fn unmarked_zero_turns_scale_from_any_zero_on(
        #[case] min: i32,
        #[case] replicas: [i32; 2],
        #[case] conditions: Vec<Value>,
        #[case] expected: bool,
    ) {
        let [current, desired] = replicas;
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "minReplicas": min, "maxReplicas": 9, "metrics": [],
            },
            "status": {
                "currentReplicas": current, "desiredReplicas": desired, "conditions": conditions,
            },
        }))
        .unwrap();
        let settings =
            Settings::default().for_kube_controller_manager(&hpa, &SettingPolicy::default());
        assert_eq!(settings.scale_from_any_zero, expected);
    }
}
