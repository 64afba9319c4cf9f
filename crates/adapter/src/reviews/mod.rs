//! Delegated authentication and authorization: the API server reviews tokens and accesses. Reviews
//! are cached. The numbers of running and of waiting reviews are limited. The rate of reviews is
//! also limited, but not for users behind a front proxy or for tokens that were valid recently.

mod authorization;
mod limit;
mod review;
mod token;
mod ttl_cache;

use std::collections::BTreeMap;

pub use authorization::{Authorizer, AuthorizerOptions};
pub(crate) use limit::{FairLimit, FairPermit, network};
pub use limit::{Flow, Rate, ReviewLimit};
pub use review::{Access, AccessReviews, AudienceReviews, ReviewError, TokenReviews};
pub use token::{TokenAuthenticator, TokenError, bearer_token};

/// The group of all users with valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// A user, as kube-apiserver identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    /// Distinguishes a user from a later one with the same name. May be empty.
    pub uid: String,
    pub groups: Vec<String>,
    /// Extra attributes for authorization.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The memory of the user's strings in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        let extra = self.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
        let all = [&self.name, &self.uid].into_iter().chain(&self.groups).chain(extra);
        all.map(String::len).sum()
    }

    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }

    /// Adds the group [`AUTHENTICATED`], unless the user is [`ANONYMOUS`] or in
    /// [`UNAUTHENTICATED`].
    #[must_use]
    pub fn with_authenticated_group(mut self) -> Self {
        let has_group = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !has_group {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
