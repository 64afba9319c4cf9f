//! Any shard of the history store is decoded as with plain decoding.
#![no_main]

use hpa_controller::fuzzing::check_history;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_history(data));
