//! Condition messages of the reference, and the list of names in the message about an ambiguous
//! selector.
//!
//! Nearly every autoscaler has three of the [`SHARED`] messages, and a controller keeps all
//! autoscalers in memory. So deserialization refers to these messages instead of allocating.

use std::{borrow::Cow, fmt};

use serde::{Deserializer, de};

pub(crate) const GOT_SCALE: &str = "the HPA controller was able to get the target's current scale";
/// The start of the message about a failed write of the scale. The cause follows.
pub(crate) const UNABLE_TO_UPDATE_SCALE: &str =
    "the HPA controller was unable to update the target scale: ";
pub(crate) const SCALING_DISABLED: &str =
    "scaling is disabled since the replica count of the target is zero";
pub(crate) const SIZE_MATCHES: &str = "recommended size matches current size";
pub(crate) const SCALED_TO_ZERO: &str = "the HPA controller scaled the workload to zero";
pub(crate) const NOT_SCALED_TO_ZERO: &str = "the HPA controller did not scale the workload to zero";
pub(crate) const STABILIZED_DOWN: &str = "recent recommendations were higher than current one, \
    applying the highest recent recommendation";
pub(crate) const STABILIZED_UP: &str =
    "recent recommendations were lower than current one, applying the lowest recent recommendation";
pub(crate) const WITHIN_RANGE: &str = "the desired count is within the acceptable range";
pub(crate) const TOO_FEW: &str = "the desired replica count is less than the minimum replica count";
pub(crate) const TOO_MANY: &str =
    "the desired replica count is more than the maximum replica count";
pub(crate) const TOO_FAST_UP: &str =
    "the desired replica count is increasing faster than the maximum scale rate";
pub(crate) const TOO_FAST_DOWN: &str =
    "the desired replica count is decreasing faster than the maximum scale rate";

/// The messages of `ValidMetricFound` for the two most common metrics.
const COMPUTED_FROM_CPU: &str = "the HPA was able to successfully calculate a replica count from \
    cpu resource utilization (percentage of request)";
const COMPUTED_FROM_MEMORY: &str = "the HPA was able to successfully calculate a replica count \
    from memory resource utilization (percentage of request)";

/// The messages that many autoscalers have.
const SHARED: [&str; 14] = [
    SIZE_MATCHES,
    COMPUTED_FROM_CPU,
    WITHIN_RANGE,
    GOT_SCALE,
    SCALING_DISABLED,
    SCALED_TO_ZERO,
    NOT_SCALED_TO_ZERO,
    STABILIZED_DOWN,
    STABILIZED_UP,
    TOO_FEW,
    TOO_MANY,
    TOO_FAST_UP,
    TOO_FAST_DOWN,
    COMPUTED_FROM_MEMORY,
];

/// Deserializes a message, without a copy if it is one of the [`SHARED`] ones.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'static, str>, D::Error> {
    struct Message;

    impl de::Visitor<'_> for Message {
        type Value = Cow<'static, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let known = SHARED.into_iter().find(|known| *known == text);
            Ok(known.map_or_else(|| Cow::Owned(text.to_owned()), Cow::Borrowed))
        }
    }

    deserializer.deserialize_str(Message)
}

/// The maximum size of the names in a message, in bytes.
const MAX_NAMES_BYTES: usize = 1024;

/// Joins names as the reference does. If they take more than [`MAX_NAMES_BYTES`], lists only the
/// first ones: each autoscaler of an ambiguous selector stores the list in its status.
pub(crate) fn name_list(names: &[String]) -> String {
    let mut list = String::new();
    for (at, name) in names.iter().enumerate() {
        if at > 0 && list.len() + name.len() > MAX_NAMES_BYTES {
            return format!("{list} and {} more", names.len() - at);
        }
        if at > 0 {
            list.push(' ');
        }
        list.push_str(name);
    }
    list
}

/// The part of the message about an ambiguous selector that precedes the names. The names of
/// [`name_list`] and `]` follow.
pub(crate) const AMBIGUOUS: &str = "are controlled by multiple HPAs: [";

/// The autoscalers that the message about an ambiguous selector names, and whether it leaves names
/// out. `None` for another message.
pub fn ambiguous_autoscalers(message: &str) -> Option<(impl Iterator<Item = &str>, bool)> {
    let (_, names) = message.rsplit_once(AMBIGUOUS)?;
    let names = names.trim_end_matches(']');
    let (names, is_cut_off) = match names.rsplit_once(" and ") {
        Some((names, count)) if count.ends_with(" more") => (names, true),
        _ => (names, false),
    };
    Some((names.split(' '), is_cut_off))
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rstest::rstest;
    use serde_json::json;

    use crate::{
        api::{Condition, ConditionType, HorizontalPodAutoscaler, Pod, Scale},
        history::History,
        plan::{Plan, SelectedPods},
        quantity::MilliValue,
        readings::{PodSample, Reading, Readings},
        settings::Settings,
    };

    use super::*;

    fn round_trip(condition: &Condition) -> Cow<'static, str> {
        let text = serde_json::to_string(condition).unwrap();
        serde_json::from_str::<Condition>(&text).unwrap().message
    }

    #[rstest]
    #[case("cpu")]
    #[case("memory")]
    fn common_messages_deserialize_without_allocation(#[case] resource: &str) {
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "maxReplicas": 3, "metrics": [{
                "type": "Resource",
                "resource": {
                    "name": resource,
                    "target": { "type": "Utilization", "averageUtilization": 50 },
                },
            }] },
        }))
        .unwrap();
        let scale = Scale { spec_replicas: 1, status_replicas: 1, selector: "app=web".into() };
        let container = json!({ "name": "app", "resources": { "requests": { resource: "1" } } });
        let time = "2026-01-01T00:00:00Z";
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "web-0" },
            "spec": { "containers": [container] },
            "status": {
                "phase": "Running",
                "startTime": time,
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }],
            },
        }))
        .unwrap();
        let (settings, now) = (Settings::default(), Timestamp::from_second(1_800_000_000).unwrap());
        let plan = Plan::new(&hpa, Ok(scale), &settings, |_| SelectedPods::new([pod]));
        let sample = PodSample {
            value: MilliValue::from_milli(500),
            timestamp: now,
            window: SignedDuration::from_secs(15),
        };
        let reading = Reading::Pods([("web-0", sample)].into_iter().collect());
        let decision =
            plan.decide(Readings::from_iter([(0, Ok(reading))]), History::default(), now);
        let conditions = decision.conclude(Ok(()), now).status.conditions;
        for condition in &conditions {
            assert!(matches!(round_trip(condition), Cow::Borrowed(_)), "{condition:?}");
        }
        let types: Vec<_> = conditions.iter().map(|condition| &condition.condition_type).collect();
        let expected = [
            ConditionType::AbleToScale,
            ConditionType::ScalingActive,
            ConditionType::ScalingLimited,
        ];
        assert_eq!(types, expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn other_messages_deserialize_as_owned() {
        let message =
            round_trip(&Condition { message: "something else".into(), ..Condition::default() });
        assert_eq!(message, "something else");
        assert!(matches!(message, Cow::Owned(_)));
    }

    #[test]
    fn long_list_of_names_is_cut() {
        let names = |count: usize, length: usize| -> Vec<_> {
            (0..count).map(|at| format!("{at:0length$}")).collect()
        };
        // Around the limit of 1024 bytes: 40 names of 20 bytes fit, and 3 of 300 bytes.
        assert_eq!(name_list(&names(2, 3)), "000 001");
        assert_eq!(name_list(&names(40, 20)), names(40, 20).join(" "));
        let list = name_list(&names(1000, 300));
        assert_eq!(list, format!("{} and 997 more", names(3, 300).join(" ")));
        assert!(name_list(&names(2, 5000)).ends_with("0 and 1 more"));
    }

    #[rstest]
    #[case("shop/web rhpa/shop/web", &["shop/web", "rhpa/shop/web"], false)]
    #[case("shop/web shop/api and 997 more", &["shop/web", "shop/api"], true)]
    fn ambiguous_autoscalers_are_only_the_names(
        #[case] list: &str,
        #[case] names: &[&str],
        #[case] is_cut_off: bool,
    ) {
        let message = format!("pods by selector app=web {AMBIGUOUS}{list}]");
        let (found, found_cut_off) = ambiguous_autoscalers(&message).unwrap();
        assert_eq!((found.collect::<Vec<_>>(), found_cut_off), (names.to_vec(), is_cut_off));
    }
}
