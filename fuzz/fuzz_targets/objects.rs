//! Any pod or autoscaler is decoded as with plain decoding.
#![no_main]

use hpa_controller::fuzzing::check_objects;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_objects(data));
