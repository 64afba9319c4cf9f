//! Any pod or autoscaler decodes to the same result as with the tests' plain decoder.
#![no_main]

use hpa_controller::fuzzing::check_objects;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_objects(data));
