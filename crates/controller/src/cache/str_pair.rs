use std::hash::Hash;

use hashbrown::Equivalent;

/// Looks up an owned pair of strings without allocating one.
#[derive(Hash)]
pub(crate) struct StrPair<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl Equivalent<(Box<str>, Box<str>)> for StrPair<'_> {
    fn equivalent(&self, key: &(Box<str>, Box<str>)) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}
