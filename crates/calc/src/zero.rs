//! Scaling to zero replicas and up from there (KEP-2021): the condition `ScaledToZero`, and the
//! delay by the setting `zero-after`.

use jiff::Timestamp;

use crate::{
    api::{ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    decision::Decision,
    explain::SettingEffect,
    settings::Settings,
    status::StatusDraft,
    time::{after, before},
};

/// The name of the setting, for effects.
pub(crate) const ZERO_AFTER: &str = "zero-after";

/// Whether the stored status has `ScaledToZero=True`, and the feature is on.
pub(crate) fn is_scaled_to_zero(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> bool {
    settings.scale_to_zero && hpa.status.is_true(&ConditionType::ScaledToZero)
}

impl Decision<'_> {
    /// With [`Settings::strict_scale_to_zero`], sets `ScaledToZero=False` if the target has
    /// replicas, even if another client scaled it up.
    pub(crate) fn clear_stale_zero(&mut self) {
        if self.settings.strict_scale_to_zero
            && self.current > 0
            && is_scaled_to_zero(self.hpa, self.settings)
        {
            self.draft.set_scaled_to_zero(false);
        }
    }

    /// Records since when the metrics propose zero replicas. Returns whether the setting
    /// `zero-after` holds the last replica, because it requires a longer time.
    ///
    /// A reconcile without a proposal doesn't call this, so the recorded time stays.
    pub(crate) fn update_zero_since(&mut self, proposed: i32, now: Timestamp) -> bool {
        let delay = self.settings.zero_after;
        if delay.is_zero() || proposed > 0 || self.current == 0 {
            self.history.zero_since = None;
            return false;
        }
        let since = *self.history.zero_since.get_or_insert(now);
        self.bounds.min_replicas == 0 && since > before(now, delay)
    }

    /// Adds the delay by `zero-after` to the explanation.
    pub(crate) fn explain_held_replica(&mut self) {
        let Some(since) = self.history.zero_since else { return };
        let at = after(since, self.settings.zero_after);
        let time = match self.settings.bounds_at(&self.hpa.spec, at).min_replicas {
            0 => format!("at {at:.0}"),
            min => format!("once the bounds allow it (minReplicas is {min} at {at:.0})"),
        };
        let text = format!("to 0 replicas {time}, if the metrics ask for it until then");
        self.explanation.effects.push(SettingEffect { setting: ZERO_AFTER, text });
    }

    /// Adds to the explanation of the delay by `zero-after` that it may have begun before this
    /// decision. For callers that don't know the past.
    pub(crate) fn doubt_start_of_delay(&mut self) {
        for effect in &mut self.explanation.effects {
            if effect.setting == ZERO_AFTER {
                effect.text += "; maybe earlier, because the past of the metrics is not known here";
            }
        }
    }

    /// Sets `ScaledToZero` after a scale write, or removes it if the feature is off.
    pub(crate) fn update_scaled_to_zero(&mut self, to: i32) {
        if !self.settings.scale_to_zero {
            self.draft.remove(&ConditionType::ScaledToZero);
            return;
        }
        let scales_to_zero = self.scales_to_zero(to);
        self.draft.set_scaled_to_zero(scales_to_zero);
    }

    /// Whether this decision scales the target to zero, and the autoscaler may scale it up again.
    fn scales_to_zero(&self, to: i32) -> bool {
        let spec = &self.hpa.spec;
        self.settings.scale_to_zero
            && self.current > 0
            && to == 0
            && self.bounds.min_replicas == 0
            && spec.has_object_or_external_metric()
    }

    /// The status to store before the scale is written: with `ScaledToZero=True` if this decision
    /// scales the workload to zero, otherwise `None`.
    ///
    /// The reference stores the condition only after the write. If its controller stops in between,
    /// the workload is at zero without the condition, looks paused by a user, and never scales up
    /// again.
    pub fn status_before_scale(&self) -> Option<HorizontalPodAutoscalerStatus> {
        self.scale_to().filter(|to| self.scales_to_zero(*to))?;
        let mut draft = StatusDraft::new(self.hpa, self.draft.now);
        draft.set_scaled_to_zero(true);
        Some(draft.status)
    }
}
