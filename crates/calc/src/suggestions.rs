//! Suggestions for misspelled names.

/// The maximum length of a name that is compared, in bytes: that of names in Kubernetes. The time
/// of a comparison is the product of the lengths.
const MAX_LENGTH: usize = 253;
/// The maximum length of a character in bytes.
const MAX_CHAR_LENGTH: usize = 4;

/// Whether one name may be a misspelling of the other. It may differ in case, by a part before or
/// after a hyphen, or by up to two letters: by one if the shorter name has fewer than five bytes.
/// Names of more than 253 bytes are never similar.
pub fn is_similar(left: &str, right: &str) -> bool {
    distance_if_similar(left, right).is_some()
}

/// Whether the author of one name may have meant the other: they are [similar](is_similar), or one
/// contains the other.
pub fn may_be_meant(left: &str, right: &str) -> bool {
    left.contains(right) || right.contains(left) || is_similar(left, right)
}

/// The [similar](is_similar) name that differs from `wanted` in the fewest letters: of several, the
/// first in alphabetical order. `None` if no name is similar.
pub fn most_similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similar =
        names.into_iter().filter_map(|name| Some((distance_if_similar(wanted, name)?, name)));
    similar.min().map(|(_, name)| name)
}

/// The edit distance of the names in lower case, or `None` if they are not similar.
fn distance_if_similar(left: &str, right: &str) -> Option<usize> {
    if left.len().max(right.len()) > MAX_LENGTH {
        return None;
    }
    let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
    let (short, long) = if left.len() <= right.len() { (&left, &right) } else { (&right, &left) };
    if short.is_empty() {
        return None;
    }
    let is_hyphenated_part =
        long.strip_prefix(short.as_str()).is_some_and(|rest| rest.starts_with('-'))
            || long.strip_suffix(short.as_str()).is_some_and(|rest| rest.ends_with('-'));
    let max_distance = if short.len() < 5 { 1 } else { 2 };
    if !is_hyphenated_part && long.len() - short.len() > max_distance * MAX_CHAR_LENGTH {
        return None;
    }
    let distance = distance(short, long);
    (is_hyphenated_part || distance <= max_distance).then_some(distance)
}

/// The edit distance: the number of letters to insert, delete or replace.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = at;
        let mut last = at + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            last = replaced.min(*cell + 1).min(last + 1);
            *cell = last;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_not_compared() {
        let names = [MAX_LENGTH, MAX_LENGTH + 1].map(|length| "a".repeat(length));
        assert_eq!(names.each_ref().map(|name| is_similar(name, name)), [true, false]);
    }

    #[test]
    fn letters_are_characters_not_bytes() {
        assert!(is_similar("große", "grosse") && is_similar("web-1", "web\u{1f600}\u{1f600}-1"));
        assert!(is_similar("web", "web-frontend") && !is_similar("web", "webfrontend"));
    }
}
