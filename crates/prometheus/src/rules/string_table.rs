//! Stores distinct strings in one allocation, by position.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Distinct strings. There may be millions, so each takes only about 20 bytes in addition to its
/// text.
#[derive(Debug, Default)]
pub(crate) struct StringTable {
    joined: String,
    /// The end of each string.
    ends: Vec<usize>,
    positions: HashTable<u32>,
    hasher: RandomState,
}

impl StringTable {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string at a position, or an empty one.
    pub(crate) fn get(&self, position: u32) -> &str {
        text(&self.joined, &self.ends, position)
    }

    pub(crate) fn position(&self, searched: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(searched);
        self.positions.find(hash, |position| self.get(*position) == searched).copied()
    }

    /// Adds a string, which must be new, and returns its position. `None` if there are 2³² strings.
    pub(crate) fn push(&mut self, new: &str) -> Option<u32> {
        let position = u32::try_from(self.ends.len()).ok()?;
        self.joined.push_str(new);
        self.ends.push(self.joined.len());
        let Self { joined, ends, positions, hasher } = self;
        let rehash = |position: &u32| hasher.hash_one(text(joined, ends, *position));
        positions.insert_unique(hasher.hash_one(new), position, rehash);
        Some(position)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.joined.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn text<'t>(joined: &'t str, ends: &[usize], position: u32) -> &'t str {
    let position = position as usize;
    let previous_end = position.checked_sub(1).and_then(|previous| ends.get(previous));
    let range = ends.get(position).map(|end| previous_end.copied().unwrap_or(0)..*end);
    range.and_then(|range| joined.get(range)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_by_content_and_position() {
        let mut table = StringTable::default();
        let all: Vec<String> = (0..1000).map(|index| format!("text_{index}")).collect();
        for (index, text) in (0..).zip(&all) {
            assert_eq!(table.position(text), None);
            assert_eq!(table.push(text), Some(index));
        }
        table.shrink_to_fit();
        assert_eq!(table.len(), 1000);
        for (index, text) in (0..).zip(&all) {
            assert_eq!((table.position(text), table.get(index)), (Some(index), &**text));
        }
        assert_eq!((table.position("text"), table.get(1000)), (None, ""));
    }

    #[test]
    fn empty_string_can_be_added() {
        let mut table = StringTable::default();
        assert_eq!(table.position(""), None);
        assert_eq!((table.push("a"), table.push("")), (Some(0), Some(1)));
        assert_eq!((table.position(""), table.get(1), table.get(0)), (Some(1), "", "a"));
    }
}
