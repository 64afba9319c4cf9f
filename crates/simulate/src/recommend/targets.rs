//! The targets that a search tries.

use std::ops::RangeInclusive;

use hpa_calc::{
    MilliValue, Quantity,
    api::{MetricSpec, MetricTarget},
};

use crate::file::Variant;

/// The range of the utilizations that a search tries, in percent. A larger utilization of the
/// scenario extends it.
const UTILIZATIONS: RangeInclusive<u32> = 10..=95;
/// The number of equal steps from the lowest utilization to the highest: 5 percentage points each
/// from 10 % to 95 %.
const UTILIZATION_STEPS: u32 = 17;
/// Good utilizations are varied by up to this number of percentage points.
const UTILIZATION_REFINEMENT: u32 = 4;
/// The range of the quantities that a search tries, in percent of those of the scenario.
const QUANTITIES: RangeInclusive<u32> = 25..=800;
const QUANTITY_GRID: [u32; 10] = [25, 35, 50, 70, 140, 200, 280, 400, 560, 800];
/// Good quantities are varied by up to this part of themselves, which closes the gaps of the grid.
const QUANTITY_REFINEMENT_DIVISOR: u32 = 5;

/// The targets that a search tries. The targets of all metrics are scaled by the same ratio, which
/// is given by a level: the lowest utilization of the targets. If one of the targets is a quantity,
/// the level is the percentage of the scenario's targets.
pub(super) struct TargetLevels {
    /// The level of the scenario.
    pub(super) current: u32,
    /// All levels of a search are in this range.
    range: RangeInclusive<u32>,
    /// The levels before the best ones are refined, without that of the scenario.
    pub(super) grid: Vec<u32>,
    are_utilizations: bool,
}

impl TargetLevels {
    pub(super) fn new(base: &Variant) -> Self {
        let targets = base.autoscaler.spec.metrics.iter().filter_map(MetricSpec::target);
        let utilization = |target: &MetricTarget| u32::try_from(target.average_utilization?).ok();
        let utilizations: Option<Vec<u32>> = targets.map(utilization).collect();
        match utilizations.and_then(|all| all.into_iter().min()).filter(|lowest| *lowest > 0) {
            Some(current) => {
                let (lowest, highest) = (*UTILIZATIONS.start(), current.max(*UTILIZATIONS.end()));
                let step = (highest - lowest) / UTILIZATION_STEPS;
                let grid = (0..=UTILIZATION_STEPS).map(|index| lowest + index * step);
                let grid = grid.filter(|level| *level != current).collect();
                Self { current, range: lowest..=highest, grid, are_utilizations: true }
            }
            None => Self {
                current: 100,
                range: QUANTITIES,
                grid: QUANTITY_GRID.to_vec(),
                are_utilizations: false,
            },
        }
    }

    /// The levels that refine a good one.
    pub(super) fn refinements(&self, level: u32) -> RangeInclusive<u32> {
        let largest_shift = if self.are_utilizations {
            UTILIZATION_REFINEMENT
        } else {
            level / QUANTITY_REFINEMENT_DIVISOR
        };
        let (lowest, highest) = (*self.range.start(), *self.range.end());
        let level = level.clamp(lowest, highest);
        level.saturating_sub(largest_shift).max(lowest)..=(level + largest_shift).min(highest)
    }

    /// The scenario's metrics with the targets of a level.
    pub(super) fn metrics(&self, base: &Variant, level: u32) -> Vec<MetricSpec> {
        base.autoscaler.spec.metrics.iter().map(|one| self.with_target(one, level)).collect()
    }

    fn with_target(&self, metric: &MetricSpec, level: u32) -> MetricSpec {
        let mut metric = metric.clone();
        let Some(target) = metric.target_mut() else { return metric };
        let utilization = target.average_utilization;
        target.average_utilization = utilization.map(|one| self.scaled_utilization(one, level));
        for quantity in [&mut target.average_value, &mut target.value].into_iter().flatten() {
            *quantity = self.scaled_quantity(quantity, level);
        }
        metric
    }

    fn scaled_utilization(&self, utilization: i32, level: u32) -> i32 {
        let current = i64::from(self.current);
        let scaled = (i64::from(utilization) * i64::from(level) + current / 2) / current;
        let highest = i32::try_from(*UTILIZATIONS.end()).unwrap_or(i32::MAX);
        i32::try_from(scaled).unwrap_or(i32::MAX).clamp(1, highest.max(utilization))
    }

    /// A scaled quantity, rounded to two significant digits, at least `1m`.
    fn scaled_quantity(&self, quantity: &Quantity, level: u32) -> Quantity {
        let milli = quantity.milli_value().as_milli();
        let scaled = i128::from(milli) * i128::from(level) / i128::from(self.current);
        let mut step = 1_i128;
        while scaled / step >= 100 {
            step *= 10;
        }
        let rounded = i64::try_from((scaled + step / 2) / step * step).unwrap_or(milli).max(1);
        MilliValue::from_milli(rounded).into()
    }

    /// The range of the targets as an assumption of the search.
    pub(super) fn assumption(&self, base: &Variant) -> String {
        let (lowest, highest) = (self.range.start(), self.range.end());
        let range = format!("targets are from {lowest} % to {highest} %");
        let of_current = if self.are_utilizations { "" } else { " of the current ones" };
        let ratio = match base.autoscaler.spec.metrics.len() {
            0 | 1 => "",
            _ => ", and those of all metrics are scaled by the same ratio",
        };
        range + of_current + ratio
    }

    /// The untried targets beyond those of a candidate, such as `targets above 95 %`. `None` unless
    /// the candidate has the lowest or the highest targets of the search.
    pub(super) fn untried(&self, base: &Variant, candidate: &Variant) -> Option<String> {
        let text = targets_text(&candidate.autoscaler.spec.metrics);
        let is_at = |level: &u32| text == targets_text(&self.metrics(base, *level));
        if is_at(self.range.end()) {
            Some(format!("targets above {text}"))
        } else if is_at(self.range.start()) {
            Some(format!("targets below {text}"))
        } else {
            None
        }
    }
}

/// The targets of metrics as a text.
pub(super) fn targets_text(metrics: &[MetricSpec]) -> String {
    metrics.iter().filter_map(target_text).collect::<Vec<_>>().join(", ")
}

fn target_text(metric: &MetricSpec) -> Option<String> {
    let target = metric.target()?;
    if let Some(utilization) = target.average_utilization {
        return Some(format!("{utilization} %"));
    }
    target.average_value.as_ref().or(target.value.as_ref()).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScenarioFile;

    fn scenario(metrics: &str) -> Variant {
        let text = format!(
            "
duration: 5m
autoscaler:
  metadata: {{name: web}}
  spec:
    scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
    maxReplicas: 20
    metrics: [{metrics}]
workload: {{load: {{constant: 1}}}}
"
        );
        ScenarioFile::parse_alone(&text).unwrap().variants.remove(0)
    }

    fn cpu(utilization: u32) -> String {
        let target = format!("{{type: Utilization, averageUtilization: {utilization}}}");
        format!("{{type: Resource, resource: {{name: cpu, target: {target}}}}}")
    }

    const QUEUE: &str = "{type: External, external: {metric: {name: queue}, \
                         target: {type: AverageValue, averageValue: '123'}}}";

    #[test]
    fn utilizations_do_not_depend_on_the_current_one() {
        let targets = |utilization| {
            let base = scenario(&cpu(utilization));
            let levels = TargetLevels::new(&base);
            let metrics = levels.grid.iter().map(|level| levels.metrics(&base, *level));
            metrics.map(|metrics| targets_text(&metrics)).collect::<Vec<_>>()
        };
        let low = targets(7);
        let expected: Vec<String> = (10..=95).step_by(5).map(|one| format!("{one} %")).collect();
        assert_eq!(low, expected);
        assert_eq!(targets(93), expected);
        let others = expected.iter().filter(|one| *one != "30 %").cloned().collect::<Vec<_>>();
        assert_eq!(targets(30), others, "the current target isn't a change");
        assert_eq!(targets(2_000_000_000).len(), 18, "a huge one doesn't need more memory");
    }

    #[test]
    fn refinements_stay_in_the_range_that_the_assumption_states() {
        let base = scenario(&cpu(7));
        let levels = TargetLevels::new(&base);
        assert_eq!(levels.refinements(50), 46..=54);
        assert_eq!(levels.refinements(94), 90..=95);
        assert_eq!(levels.refinements(7), 10..=14);
        assert_eq!(levels.assumption(&base), "targets are from 10 % to 95 %");
        let base = scenario(&format!("{}, {QUEUE}", cpu(30)));
        let levels = TargetLevels::new(&base);
        assert_eq!(levels.refinements(200), 160..=240);
        assert_eq!(levels.refinements(800), 640..=800);
        assert_eq!(
            levels.assumption(&base),
            "targets are from 25 % to 800 % of the current ones, and those of all metrics are \
             scaled by the same ratio"
        );
    }

    #[test]
    fn lowest_and_highest_targets_name_the_untried_ones_beyond() {
        let untried = |base: &Variant, level| {
            let levels = TargetLevels::new(base);
            let mut candidate = base.clone();
            candidate.autoscaler.spec.metrics = levels.metrics(base, level);
            levels.untried(base, &candidate)
        };
        let base = scenario(&cpu(30));
        assert_eq!(untried(&base, 95).as_deref(), Some("targets above 95 %"));
        assert_eq!(untried(&base, 10).as_deref(), Some("targets below 10 %"));
        assert_eq!(untried(&base, 94), None);
        let base = scenario(QUEUE);
        assert_eq!(untried(&base, 800).as_deref(), Some("targets above 980"));
        assert_eq!(untried(&base, 100), None);
    }

    #[test]
    fn targets_are_scaled_and_rounded() {
        let levels = TargetLevels::new(&scenario(QUEUE));
        let quantity = |text: &str, percent| {
            levels.scaled_quantity(&text.parse::<Quantity>().unwrap(), percent).to_string()
        };
        assert_eq!(quantity("100", 75), "75");
        assert_eq!(quantity("500m", 70), "350m");
        assert_eq!(quantity("123", 110), "140");
        assert_eq!(quantity("1m", 10), "1m");
        let base = scenario(&format!("{}, {}", cpu(80), cpu(20).replace("cpu", "memory")));
        let levels = TargetLevels::new(&base);
        assert_eq!(targets_text(&levels.metrics(&base, 95)), "95 %, 95 %");
        assert_eq!(targets_text(&levels.metrics(&base, 15)), "60 %, 15 %");
    }
}
