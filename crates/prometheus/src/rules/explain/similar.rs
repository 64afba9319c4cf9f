//! Names that are similar to a mistyped one.

use std::cmp::Reverse;

/// The most similar of the names, best first. Names that have nothing in common are left out.
pub(super) fn most_similar(name: &str, names: &[&str], max: usize) -> Vec<String> {
    let mut scored: Vec<(usize, &str)> =
        names.iter().map(|other| (score(name, other), *other)).collect();
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by_key(|(score, other)| (Reverse(*score), *other));
    scored.into_iter().take(max).map(|(_, other)| other.to_owned()).collect()
}

/// The number of bytes in words that both names have, and in their common start.
fn score(name: &str, other: &str) -> usize {
    let words = |text: &str| text.split(['_', ':', '.']).map(str::to_owned).collect::<Vec<_>>();
    let others = words(other);
    let common: usize =
        words(name).iter().filter(|word| others.contains(word)).map(String::len).sum();
    let start = name.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    common + start
}
