//! Validation and limits of scenario files.

use std::{collections::BTreeSet, ops::RangeInclusive};

use hpa_calc::crd::FieldError;
use jiff::tz::TimeZone;

use super::{BASE, Variant, VariantSpec};
use crate::workload::{
    field::{check_not_negative, ensure},
    scenario::{MAX_PODS, WorkloadSpec, check_pods},
    seconds::DAY,
};

/// The maximum number of variants of a file, without the base.
const MAX_VARIANTS: usize = 100;
/// The maximum duration of a run.
const MAX_DAYS: u32 = 366;
/// The permitted years of `start`, far from the limits of timestamps.
const START_YEARS: RangeInclusive<i16> = 2000..=2099;

/// Fields of `workload.spec` that the model sets itself.
const MODELLED_FIELDS: [&str; 4] = ["template", "selector", "replicas", "paused"];

/// Checks the number and the names of variants.
pub(super) fn check_variants(specs: &[VariantSpec]) -> Result<(), FieldError> {
    let message = format!("has {} variants, but may have at most {MAX_VARIANTS}", specs.len());
    ensure(specs.len() <= MAX_VARIANTS, "variants", message)?;
    let mut names = BTreeSet::from([BASE]);
    for (index, spec) in specs.iter().enumerate() {
        let message = format!("{:?} is already used", spec.name);
        ensure(names.insert(&spec.name), format!("variants[{index}].name"), message)?;
    }
    Ok(())
}

/// Checks the limits, and that the workload is the autoscaler's target.
pub(super) fn validate_variant(variant: &Variant) -> Result<(), FieldError> {
    let Variant { workload, autoscaler, controller, cost, .. } = variant;
    let target = &autoscaler.spec.scale_target_ref;
    let target_fields = [
        ("name", &workload.name, &target.name),
        ("kind", &workload.kind, &target.kind),
        ("namespace", &workload.namespace, &autoscaler.metadata.namespace),
    ];
    for (field, value, expected) in target_fields {
        let message = format!("is {value:?}, but the autoscaler's target has {expected:?}");
        ensure(value == expected, format!("workload.{field}"), message)?;
    }
    check_workload_spec(workload)?;
    check_pods_of_variant(variant)?;
    let is_short_enough = variant.scenario.duration.get() <= f64::from(MAX_DAYS) * DAY;
    ensure(is_short_enough, "duration", format!("must be at most {MAX_DAYS}d"))?;
    let has_plausible_start = START_YEARS.contains(&variant.start.to_zoned(TimeZone::UTC).year());
    let (first, last) = (*START_YEARS.start(), *START_YEARS.end());
    let message = format!("must be in the years {first} to {last}");
    ensure(has_plausible_start, "start", message)?;
    let is_long_enough = controller.sync_period.get() >= 1.0;
    ensure(is_long_enough, "controller.syncPeriod", "must be at least 1s")?;
    check_not_negative("controller.tolerance", controller.tolerance)?;
    check_not_negative("cost.perPodHour", cost.per_pod_hour)?;
    variant.scenario.validate().map_err(|error| {
        let field = error.field.replacen("workloads[0]", "workload", 1);
        FieldError { field, ..error }
    })
}

/// Checks the numbers of pods that [`Scenario::validate`](crate::workload::scenario::Scenario)
/// doesn't check.
fn check_pods_of_variant(variant: &Variant) -> Result<(), FieldError> {
    // `workload.replicas` defaults to `minReplicas`, so the error names that field.
    let min_replicas = variant.autoscaler.spec.effective_min_replicas();
    check_pods("autoscaler.spec.minReplicas", min_replicas.try_into().unwrap_or_default())?;
    let mut total: u32 = 0;
    for (index, entry) in variant.other_pods.iter().enumerate() {
        check_pods(format!("otherPods[{index}].pods"), entry.pods)?;
        total = total.saturating_add(entry.pods);
    }
    let message = format!("has {total} pods, but may have at most {MAX_PODS} in all entries");
    ensure(total <= MAX_PODS, "otherPods", message)
}

/// Rejects the fields of `workload.spec` in [`MODELLED_FIELDS`].
fn check_workload_spec(workload: &WorkloadSpec) -> Result<(), FieldError> {
    let fields = workload.spec.as_ref();
    for name in MODELLED_FIELDS {
        let is_set = fields.is_some_and(|fields| fields.contains_key(name));
        let message = "the simulation sets it: use workload.replicas and workload.profile";
        ensure(!is_set, format!("workload.spec.{name}"), message)?;
    }
    Ok(())
}
