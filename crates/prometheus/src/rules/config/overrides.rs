//! `overrides`: a map that keeps the order of the file.

/// Labels and the resources that they name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(String, OverrideTarget)>);

/// The resource of an override.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideTarget {
    /// The API group. If it is empty, any group with the resource.
    pub group: String,
    /// The resource in plural or singular.
    pub resource: String,
}

impl Overrides {
    /// The labels and their resources.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OverrideTarget)> {
        self.0.iter().map(|(label, target)| (label.as_str(), target))
    }

    /// The resource of a label.
    pub fn get(&self, label: &str) -> Option<&OverrideTarget> {
        self.iter().find(|(own, _)| *own == label).map(|(_, target)| target)
    }

    /// Sets the resource of a label.
    pub fn set(&mut self, label: String, target: OverrideTarget) {
        match self.0.iter_mut().find(|(own, _)| *own == label) {
            Some((_, current)) => *current = target,
            None => self.0.push((label, target)),
        }
    }
}

impl FromIterator<(String, OverrideTarget)> for Overrides {
    fn from_iter<I: IntoIterator<Item = (String, OverrideTarget)>>(iter: I) -> Self {
        let mut overrides = Self::default();
        iter.into_iter().for_each(|(label, target)| overrides.set(label, target));
        overrides
    }
}
