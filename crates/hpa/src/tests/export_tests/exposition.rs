//! A parser of the Prometheus text format.

use std::collections::{BTreeMap, BTreeSet};

/// The metrics of an exposition.
pub(crate) struct Exposition {
    /// Type and labels by metric family. The label `le` of histograms is left out.
    pub(crate) families: BTreeMap<String, (String, BTreeSet<String>)>,
    /// Labels by series name, which for histograms ends in `_bucket`, `_sum` or `_count`.
    pub(super) series: BTreeMap<String, BTreeSet<String>>,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        let (mut families, mut series) =
            (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
        let mut family = String::new();
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').expect("a type");
                name.clone_into(&mut family);
                let previous = families.insert(family.clone(), (kind.to_owned(), BTreeSet::new()));
                assert!(previous.is_none(), "{name} is declared twice");
            } else if !line.starts_with('#') {
                let (name, labels) = name_and_labels(line);
                assert!(name.starts_with(&family), "{line} is not in the family {family}");
                let without_le = labels.iter().filter(|label| *label != "le").cloned();
                families.get_mut(&family).expect("declared").1.extend(without_le);
                series.entry(name).or_default().extend(labels);
            }
        }
        Self { families, series }
    }
}

/// The name of a series, and the names of its labels.
fn name_and_labels(line: &str) -> (String, Vec<String>) {
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
