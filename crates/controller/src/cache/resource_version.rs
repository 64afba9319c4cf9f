//! The order of resource versions.

/// Whether a version of an object or list is newer than another one of the same resource. Resource
/// versions are increasing numbers (KEP-5504). What isn't a number is neither newer nor older.
pub(crate) fn is_newer(version: &str, than: &str) -> bool {
    let (version, than) = (version.parse::<u64>(), than.parse::<u64>());
    matches!((version, than), (Ok(version), Ok(than)) if version > than)
}
