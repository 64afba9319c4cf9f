//! `calculator_*`: one replica calculation per line.

use std::collections::BTreeMap;

use hpa_calc::{
    MilliValue,
    api::{Pod, ResourceName},
    readings::{PodSample, PodSamples},
    replicas::{self, AverageTarget, Proposal, UtilizationTarget, ValueTarget},
    settings::{ReadinessRules, Tolerances},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Calculation {
    #[expect(dead_code, reason = "a known field; `main` prints it from the JSON")]
    name: String,
    function: String,
    now: Timestamp,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    container: Option<String>,
    #[serde(default)]
    current_replicas: i32,
    target: i64,
    tolerance_up: f64,
    tolerance_down: f64,
    #[serde(default)]
    cpu_initialization_period_seconds: i64,
    #[serde(default)]
    initial_readiness_delay_seconds: i64,
    #[serde(default)]
    pods: Option<Vec<Pod>>,
    #[serde(default)]
    pod_metrics: Option<BTreeMap<String, Sample>>,
    #[serde(default)]
    values: Option<Vec<i64>>,
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sample {
    #[serde(default)]
    value: i64,
    timestamp: Option<Timestamp>,
    #[serde(default)]
    window_seconds: i64,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Expected {
    replicas: i32,
    usage: i64,
    utilization: i32,
    error: Option<String>,
}

pub(crate) fn check(line: &Value) -> Result<(), String> {
    let calculation =
        Calculation::deserialize(line).map_err(|error| format!("invalid line: {error}"))?;
    let actual = match calculation.compute() {
        Ok(proposal) => Expected {
            replicas: proposal.replicas,
            usage: proposal.usage.as_milli(),
            utilization: proposal.utilization.unwrap_or_default(),
            error: None,
        },
        Err(error) => Expected { error: Some(error), ..Expected::default() },
    };
    if actual == calculation.expect {
        Ok(())
    } else {
        Err(format!("expected {:?}, got {actual:?}", calculation.expect))
    }
}

impl Calculation {
    fn compute(&self) -> Result<Proposal, String> {
        let pods = || self.pods.iter().flatten();
        let samples = || -> PodSamples { self.pod_metrics.iter().flatten().map(sample).collect() };
        let values = || -> Vec<MilliValue> {
            self.values.iter().flatten().copied().map(MilliValue::from_milli).collect()
        };
        let readiness = ReadinessRules {
            now: self.now,
            cpu_initialization_period: SignedDuration::from_secs(
                self.cpu_initialization_period_seconds,
            ),
            initial_readiness_delay: SignedDuration::from_secs(
                self.initial_readiness_delay_seconds,
            ),
        };
        let target = MilliValue::from_milli(self.target);
        let tolerances = Tolerances { up: self.tolerance_up, down: self.tolerance_down };
        let resource = ResourceName::from(self.resource.as_str());
        let average = |is_cpu| {
            let current_replicas = self.current_replicas;
            let target = AverageTarget { current_replicas, target, is_cpu, tolerances };
            replicas::average_value(&target, pods(), &samples(), &readiness)
        };
        let value = ValueTarget { replicas: self.current_replicas, target, tolerances };
        let single_value = || values().first().copied().unwrap_or_default();
        match self.function.as_str() {
            "resource_utilization" => {
                let target = UtilizationTarget {
                    current_replicas: self.current_replicas,
                    target: i32::try_from(self.target).map_err(|error| error.to_string())?,
                    resource: &resource,
                    container: self.container.as_deref().filter(|name| !name.is_empty()),
                    tolerances,
                };
                replicas::utilization(&target, pods(), &samples(), &readiness)
            }
            "resource_average_value" => average(resource == ResourceName::Cpu),
            "pods_average_value" => average(false),
            "object_value" => replicas::value(&value, single_value(), pods()),
            "object_average_value" => Ok(replicas::object_average_value(&value, single_value())),
            "external_value" => {
                replicas::value(&value, replicas::external_total(&values()), pods())
            }
            "external_average_value" => Ok(replicas::external_average_value(&value, &values())),
            other => return Err(format!("unknown function {other}")),
        }
        .map_err(|error| error.to_string())
    }
}

fn sample((pod, sample): (&String, &Sample)) -> (String, PodSample) {
    // Go's zero time.
    let timestamp = sample.timestamp.unwrap_or(Timestamp::constant(-62_135_596_800, 0));
    let window = SignedDuration::from_secs(sample.window_seconds);
    (pod.clone(), PodSample { value: MilliValue::from_milli(sample.value), timestamp, window })
}
