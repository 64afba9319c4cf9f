//! Prometheus' text format, read.

use std::collections::{BTreeMap, BTreeSet};

/// What is exported.
pub(super) struct Exposition {
    /// By family the type and the labels.
    pub(super) families: BTreeMap<String, (String, BTreeSet<String>)>,
    /// By the name of a series its labels, those of a histogram's buckets and sums apart.
    pub(super) series: BTreeMap<String, BTreeSet<String>>,
}

impl Exposition {
    pub(super) fn parse(text: &str) -> Self {
        let (mut families, mut series) =
            (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
        let mut family = String::new();
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').expect("a type");
                name.clone_into(&mut family);
                let before = families.insert(family.clone(), (kind.to_owned(), BTreeSet::new()));
                assert!(before.is_none(), "{name} is declared twice");
            } else if !line.starts_with('#') {
                let (name, labels) = names(line);
                assert!(name.starts_with(&family), "{line} is not of {family}");
                let own = labels.iter().filter(|label| *label != "le").cloned();
                families.get_mut(&family).expect("declared").1.extend(own);
                series.entry(name).or_default().extend(labels);
            }
        }
        Self { families, series }
    }
}

/// The name of a series and of its labels.
fn names(line: &str) -> (String, Vec<String>) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap_or_default().to_owned(), Vec::new());
    };
    let (mut labels, mut label, mut in_value) = (Vec::new(), String::new(), false);
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_value => _ = characters.next(),
            '"' => in_value = !in_value,
            _ if in_value => {}
            '}' => break,
            '=' => labels.push(std::mem::take(&mut label)),
            ',' => {}
            other => label.push(other),
        }
    }
    (name.to_owned(), labels)
}
