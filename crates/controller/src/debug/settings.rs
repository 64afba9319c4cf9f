//! The settings with which a command decides as the controller would.

use hpa_calc::{HorizontalPodAutoscaler, Settings, settings::SettingPolicy};

use crate::k8s::StatusController;

/// The settings for decisions outside a controller. `controller` has the settings from the
/// controller's debug API, or is `None` if they were not read.
///
/// If all flags have their defaults, the controller's settings are used, otherwise the flags, with
/// two exceptions: schedules are exact if they are exact in either, because that is a property of
/// the cluster's metrics; and [`Settings::strict_scale_to_zero`] is always the flags', because the
/// debug API doesn't have it.
pub fn effective_settings(flags: Settings, controller: Option<Settings>) -> Settings {
    let Some(controller) = controller else { return flags };
    let (is_strict, is_exact) = (flags.strict_scale_to_zero, flags.exact_schedules);
    let defaults = Settings::default().with(|settings| {
        settings.strict_scale_to_zero = is_strict;
        settings.exact_schedules = is_exact;
    });
    let is_exact = is_exact || controller.exact_schedules;
    let settings = if flags == defaults { controller } else { flags };
    settings.with(|settings| {
        settings.strict_scale_to_zero = is_strict;
        settings.exact_schedules = is_exact;
    })
}

/// The controller that acts on an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActingController {
    /// hpa-rs. Also any other controller that isn't kube-controller-manager.
    HpaRs,
    /// kube-controller-manager. If hpa-rs stored the status last, kube-controller-manager has
    /// replaced it.
    KubeControllerManager {
        /// Whether kube-controller-manager stored the status last.
        is_status_of_kube_controller_manager: bool,
    },
    /// It is unknown which controller acts, or both do. The last writer of the status doesn't
    /// decide it: a controller that changes nothing writes no status, and hpa-rs writes none in a
    /// dry run.
    Unknown {
        /// Whether kube-controller-manager stored the status last.
        is_status_of_kube_controller_manager: bool,
    },
}

impl ActingController {
    /// Derives the controller from the writer of the last status. If that is
    /// kube-controller-manager, hpa-rs may be acting by now, so the result is [`Self::Unknown`].
    /// `hpa_rs_answers` is whether a record or a debug API shows that hpa-rs acts.
    pub fn of_status(writer: &StatusController, hpa_rs_answers: bool) -> Self {
        if writer.is_kube_controller_manager() && !hpa_rs_answers {
            Self::Unknown { is_status_of_kube_controller_manager: true }
        } else {
            Self::HpaRs
        }
    }

    /// Whether only kube-controller-manager acts.
    pub fn is_kube_controller_manager(self) -> bool {
        matches!(self, Self::KubeControllerManager { .. })
    }
}

/// The settings with which `controller` decides on an autoscaler.
///
/// [`Settings::strict_scale_to_zero`] is on for hpa-rs and off otherwise, whatever `settings` has.
/// The autoscaler's own settings apply only with hpa-rs. If the controller is unknown, they don't
/// apply, and the warnings about them say what hpa-rs would do.
pub fn settings_of_controller(
    settings: Settings,
    hpa: &HorizontalPodAutoscaler,
    policy: &SettingPolicy,
    controller: ActingController,
) -> Settings {
    let is_hpa_rs = controller == ActingController::HpaRs;
    let settings = settings.with(|settings| settings.strict_scale_to_zero = is_hpa_rs);
    let for_built_in = |settings: Settings, is_status_of_kube_controller_manager: bool| {
        let settings = settings.for_kube_controller_manager(hpa, policy);
        if is_status_of_kube_controller_manager {
            settings
        } else {
            settings.with_status_of_hpa_rs()
        }
    };
    match controller {
        ActingController::HpaRs => settings.for_autoscaler(hpa, policy).settings,
        ActingController::KubeControllerManager { is_status_of_kube_controller_manager } => {
            for_built_in(settings, is_status_of_kube_controller_manager)
        }
        ActingController::Unknown { is_status_of_kube_controller_manager } => {
            for_built_in(settings, is_status_of_kube_controller_manager).with_unknown_controller()
        }
    }
}
