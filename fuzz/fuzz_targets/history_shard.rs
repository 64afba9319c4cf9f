//! Any shard of the history store decodes to the same result as with the tests' plain decoder,
//! which parses the whole JSON first.
#![no_main]

use hpa_controller::fuzzing::check_history;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_history(data));
