//! Any response of a metrics API decodes to the same result as with the tests' plain decoder.
#![no_main]

#[path = "../../crates/metrics/tests/decoding/model.rs"]
mod model;

use hpa_testbed::decoder_tests::fuzz_input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    model::check_pod_metrics(&fuzz_input(&model::POD_METRICS, data));
    model::check_metric_values(&fuzz_input(&model::METRIC_VALUES, data));
    model::check_external_metrics(&fuzz_input(&model::EXTERNAL_METRICS, data));
});
