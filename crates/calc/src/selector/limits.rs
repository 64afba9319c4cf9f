//! Limits of selectors, and of the labels of pods. Tenants write both, and a reconcile may match a
//! selector with every label set of a namespace, so both must be small.

use super::{Requirement, SelectorError};

/// The maximum number of requirements of a selector.
pub const MAX_REQUIREMENTS: usize = 100;
/// The maximum number of values in all requirements of a selector.
pub const MAX_VALUES: usize = 1000;
/// The maximum length in bytes of a selector's text, and of an upper bound of its canonical string.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// The maximum number of labels of a pod that selectors match.
pub const MAX_LABELS: usize = 256;
/// The maximum length in bytes of all keys and values of a pod that selectors match.
pub const MAX_LABEL_BYTES: usize = 16 << 10;

/// Whether there are more than [`MAX_LABELS`] labels, or more than [`MAX_LABEL_BYTES`] in them. No
/// selector matches a pod with such labels.
pub fn exceed_label_limits<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    let (mut count, mut bytes) = (0, 0);
    labels.into_iter().any(|(key, value)| {
        count += 1;
        bytes += key.len() + value.len();
        count > MAX_LABELS || bytes > MAX_LABEL_BYTES
    })
}

/// Checks the length of a text before it is parsed.
pub(super) fn check_text(text: &str) -> Result<(), SelectorError> {
    check(text.len(), "bytes", MAX_TEXT_BYTES)
}

/// Checks the requirements of a selector. The canonical string of an accepted selector is accepted
/// as well.
pub(super) fn check_requirements(requirements: &[Requirement]) -> Result<(), SelectorError> {
    check(requirements.len(), "requirements", MAX_REQUIREMENTS)?;
    let values: usize = requirements.iter().map(|requirement| requirement.values.len()).sum();
    check(values, "values", MAX_VALUES)?;
    check(requirements.iter().map(max_canonical_len).sum(), "bytes", MAX_TEXT_BYTES)
}

fn check(size: usize, unit: &'static str, limit: usize) -> Result<(), SelectorError> {
    if size > limit {
        return Err(SelectorError::TooLarge { size, unit, limit });
    }
    Ok(())
}

/// An upper bound of a requirement's length in the canonical string: with the longest operator and
/// a comma after each value.
fn max_canonical_len(requirement: &Requirement) -> usize {
    const SEPARATORS: &str = " notin (),";
    let values: usize = requirement.values.iter().map(|value| value.len() + ",".len()).sum();
    requirement.key.len() + values + SEPARATORS.len()
}
