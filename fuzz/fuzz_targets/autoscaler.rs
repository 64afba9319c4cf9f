//! Any JSON that deserializes as an autoscaler can be defaulted, validated, serialized and read
//! back.
#![no_main]

use hpa_calc::{
    HorizontalPodAutoscaler,
    defaults::apply_defaults,
    validation::{ValidationOptions, validate, validate_labels_and_annotations, validate_name},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut hpa) = serde_json::from_slice::<HorizontalPodAutoscaler>(data) else { return };
    apply_defaults(&mut hpa.spec);
    let _ = validate_name(&hpa.metadata.name);
    let _ = validate_labels_and_annotations(&hpa.metadata);
    let causes = validate(&hpa.spec, &ValidationOptions::default());
    let json = serde_json::to_vec(&hpa).expect("an autoscaler serializes");
    let again: HorizontalPodAutoscaler = serde_json::from_slice(&json).expect("it reads back");
    assert_eq!(causes, validate(&again.spec, &ValidationOptions::default()));
});
