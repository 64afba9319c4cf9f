//! Who sends a request.

use std::collections::BTreeMap;

/// The group of all users with valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name.
    pub name: String,
    /// Distinguishes users with the same name over time. It may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further information for authorization.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The length of all texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let extra = self.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
        let all = [&self.name, &self.uid].into_iter().chain(&self.groups).chain(extra);
        all.map(String::len).sum()
    }

    /// A user with a name and groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The user, who has shown valid credentials, with the group that says so.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let is_marked = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !is_marked {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
