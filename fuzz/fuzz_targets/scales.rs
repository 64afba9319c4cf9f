//! Any scale, decoded or derived from an object, equals the result of the tests' plain decoder.
#![no_main]

use hpa_controller::fuzzing::check_scales;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_scales(data));
