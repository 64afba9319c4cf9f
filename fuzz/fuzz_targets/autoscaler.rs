//! Any JSON that reads as an autoscaler can be defaulted, judged, written and read again.
#![no_main]

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    defaults::apply_defaults,
    validation::{ValidationOptions, validate, validate_name},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut hpa) = serde_json::from_slice::<HorizontalPodAutoscaler>(data) else { return };
    apply_defaults(&mut hpa.spec);
    let _ = validate_name(&hpa.metadata.name);
    let causes = validate(&hpa.spec, &ValidationOptions::default());
    let text = serde_json::to_vec(&hpa).expect("an autoscaler can be written");
    let again: HorizontalPodAutoscaler =
        serde_json::from_slice(&text).expect("what was written can be read");
    assert_eq!(causes, validate(&again.spec, &ValidationOptions::default()));
});
