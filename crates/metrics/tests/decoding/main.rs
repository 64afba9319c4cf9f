//! Compares `decode_list` with plain decoding, on valid and malformed lists of the metrics APIs.

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
fn long_lists_of_tiny_items_are_rejected_as_with_plain_decoding() {
    for items in [63, 64, 65, 66, 1000] {
        for size in [2, 20, 31, 32, 33, 40] {
            let item = format!("{{{}}}", " ".repeat(size - 2));
            let text = format!(r#"{{"items":[{}]}}"#, vec![item; items].join(","));
            model::check_external_metrics(text.as_bytes());
        }
    }
}
