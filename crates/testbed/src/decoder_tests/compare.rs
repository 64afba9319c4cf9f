//! Runs a check (see the parent module) with samples and with edited samples.

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};

use super::{Edit, Sample};

/// The number of random combinations of edits.
const CASES: u32 = 1000;
/// A check must decode at least this share of the single edits, and reject at least this share.
const MIN_SHARE: f64 = 0.05;

/// Calls `check` with the samples, with the edits of [`Sample::single_edits`], and with
/// pseudorandom combinations of edits, which are the same in each run. `check` returns whether it
/// decoded the input.
///
/// Panics if a sample is not decoded, or if less than 5 % of the single edits are decoded, or less
/// than 5 % are rejected.
pub fn compare(samples: &[&str], check: impl Fn(&[u8]) -> bool) {
    for sample in samples {
        assert!(check(sample.as_bytes()), "the sample can't be decoded: {sample}");
    }
    let samples: Vec<Sample> = samples.iter().map(|sample| Sample::new(sample)).collect();
    let (mut decoded, mut total) = (0, 0);
    for sample in &samples {
        for edit in sample.single_edits() {
            decoded += u32::from(check(&sample.edit(&[edit])));
            total += 1;
        }
    }
    let share = f64::from(decoded) / f64::from(total);
    assert!((MIN_SHARE..1.0 - MIN_SHARE).contains(&share), "{decoded} of {total} are decoded");

    let edit = any::<(u8, u16, u16)>().prop_map(|(kind, at, choice)| Edit::new(kind, at, choice));
    let cases = (0..samples.len(), vec(edit, 0..6));
    let config = ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&cases, |(sample, edits)| {
        check(&samples[sample].edit(&edits));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Converts the input of a fuzz target to the input of a check. The first byte selects a sample,
/// which the other bytes edit. If it selects none, returns the other bytes.
pub fn fuzz_input(samples: &[&str], data: &[u8]) -> Vec<u8> {
    let Some((choice, rest)) = data.split_first() else { return Vec::new() };
    let Some(sample) = usize::from(*choice).checked_sub(1).and_then(|at| samples.get(at)) else {
        return rest.to_vec();
    };
    let (edits, _) = rest.as_chunks::<5>();
    let edits = edits.iter().map(|[kind, at @ .., a, b]| {
        Edit::new(*kind, u16::from_le_bytes(*at), u16::from_le_bytes([*a, *b]))
    });
    Sample::new(sample).edit(&edits.collect::<Vec<_>>())
}
