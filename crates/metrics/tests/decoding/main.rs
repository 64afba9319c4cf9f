//! Compares `decode_list` with a plain decoder (`model`), which parses the whole JSON into a
//! `Document` first, on valid and malformed lists of the metrics APIs.

mod model;

use hpa_testbed::decoder_tests::compare;

#[test]
fn pod_metrics_are_decoded_as_with_plain_decoding() {
    compare(&model::POD_METRICS, model::check_pod_metrics);
}

#[test]
fn custom_metrics_are_decoded_as_with_plain_decoding() {
    compare(&model::METRIC_VALUES, model::check_metric_values);
}

#[test]
fn external_metrics_are_decoded_as_with_plain_decoding() {
    compare(&model::EXTERNAL_METRICS, model::check_external_metrics);
}

#[test]
fn limit_of_tiny_items_is_the_same_as_with_plain_decoding() {
    // Around the limits in `wire/list.rs`: 64 items, and 32 bytes per item on average.
    for items in [63, 64, 65, 66, 1000] {
        for size in [2, 20, 31, 32, 33, 40] {
            let item = format!("{{{}}}", " ".repeat(size - 2));
            let text = format!(r#"{{"items":[{}]}}"#, vec![item; items].join(","));
            model::check_external_metrics(text.as_bytes());
        }
    }
}
