//! The targets of metrics in percent of the original ones.

use hpa_calc::{MilliValue, Quantity, api::MetricSpec};
use serde_json::{Map, Value};

use crate::file::Variant;

/// The largest utilization that is suggested, in percent.
const MAX_UTILIZATION: i64 = 95;

/// The paths of the targets in a metric.
const TARGETS: [&str; 5] = [
    "/resource/target",
    "/containerResource/target",
    "/pods/target",
    "/object/target",
    "/external/target",
];

/// A metric with its target in percent of the original one.
pub(super) fn scaled(metric: &MetricSpec, percent: u32) -> Value {
    let mut metric = serde_json::to_value(metric).unwrap_or_default();
    for path in TARGETS {
        let Some(target) = metric.pointer_mut(path).and_then(Value::as_object_mut) else {
            continue;
        };
        scale_utilization(target, percent);
        for field in ["averageValue", "value"] {
            let quantity = target.get(field).and_then(Value::as_str);
            let quantity = quantity.and_then(|text| text.parse::<Quantity>().ok());
            if let Some(quantity) = quantity {
                target.insert(field.to_owned(), scaled_quantity(&quantity, percent).into());
            }
        }
    }
    metric
}

fn scale_utilization(target: &mut Map<String, Value>, percent: u32) {
    let Some(utilization) = target.get("averageUtilization").and_then(Value::as_i64) else {
        return;
    };
    let scaled = (utilization * i64::from(percent) + 50) / 100;
    let scaled = scaled.clamp(1, MAX_UTILIZATION.max(utilization));
    target.insert("averageUtilization".to_owned(), scaled.into());
}

/// Rounded to two digits, at least to a thousandth.
fn scaled_quantity(quantity: &Quantity, percent: u32) -> String {
    let milli = quantity.milli_value().as_milli();
    let scaled = i128::from(milli) * i128::from(percent) / 100;
    let mut step = 1_i128;
    while scaled / step >= 100 {
        step *= 10;
    }
    let rounded = i64::try_from((scaled + step / 2) / step * step).unwrap_or(milli).max(1);
    MilliValue::from_milli(rounded).to_string()
}

/// The targets in percent of the original ones, as texts.
pub(super) fn targets(base: &Variant, percent: u32) -> Vec<String> {
    let text = |metric: &MetricSpec| {
        let metric = scaled(metric, percent);
        let target = TARGETS.iter().find_map(|path| metric.pointer(path))?;
        if let Some(utilization) = target.get("averageUtilization") {
            return Some(format!("{utilization} %"));
        }
        let value = target.get("averageValue").or_else(|| target.get("value"))?;
        Some(value.as_str().unwrap_or_default().to_owned())
    };
    base.autoscaler.spec.metrics.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_scaled_and_rounded() {
        let quantity =
            |text: &str, percent| scaled_quantity(&text.parse::<Quantity>().unwrap(), percent);
        assert_eq!(quantity("100", 75), "75");
        assert_eq!(quantity("500m", 70), "350m");
        assert_eq!(quantity("123", 110), "140");
        assert_eq!(quantity("1m", 10), "1m");
    }
}
