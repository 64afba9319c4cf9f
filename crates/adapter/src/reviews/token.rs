//! Bearer tokens, which the API server reviews.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, header};

use crate::reviews::{
    limit::ReviewLimit,
    review::{ReviewError, TokenReviews},
    ttl_cache::TtlCache,
    user::User,
};

/// How many tokens are cached, valid and invalid ones each, so that invalid tokens can't replace
/// valid ones.
const CAPACITY: usize = 512;

/// Reviews that may run, and those that may wait. Requests of the front proxy need none.
const RUNNING: usize = 16;
const WAITING: usize = 112;

/// Longer tokens are refused without a review, so that the cache's memory is bounded.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Determines the users of bearer tokens.
pub struct TokenAuthenticator {
    reviews: Arc<dyn TokenReviews>,
    lifetime: Duration,
    limit: ReviewLimit,
    valid: TtlCache<String, User>,
    invalid: TtlCache<String, ()>,
}

/// What a review says.
enum Reviewed {
    Valid(User),
    Invalid,
}

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The API server doesn't know the token.
    #[error("invalid bearer token")]
    Invalid,
    /// There is no review.
    #[error("unable to review the token")]
    Review(#[from] ReviewError),
}

impl TokenAuthenticator {
    /// Caches reviews for a time.
    pub fn new(reviews: Arc<dyn TokenReviews>, lifetime: Duration) -> Self {
        let limit = ReviewLimit::new(RUNNING, WAITING);
        let (valid, invalid) = (TtlCache::new(CAPACITY), TtlCache::new(CAPACITY));
        Self { reviews, lifetime, limit, valid, invalid }
    }

    /// The user of the token in the header `Authorization`. `None` if there is no token.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<User>, TokenError> {
        match bearer_token(headers, &header::AUTHORIZATION) {
            Some(token) => self.user(token).await.map(Some),
            None => Ok(None),
        }
    }

    /// The user of a token.
    pub async fn user(&self, token: String) -> Result<User, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Invalid);
        }
        let reviewed = match self.cached(&token) {
            Some(reviewed) => reviewed,
            None => self.limit.run(self.review(token)).await?,
        };
        match reviewed {
            Reviewed::Valid(user) => Ok(user),
            Reviewed::Invalid => Err(TokenError::Invalid),
        }
    }

    /// What a review has said.
    fn cached(&self, token: &String) -> Option<Reviewed> {
        let invalid = || self.invalid.get(token).map(|()| Reviewed::Invalid);
        self.valid.get(token).map(Reviewed::Valid).or_else(invalid)
    }

    async fn review(&self, token: String) -> Result<Reviewed, ReviewError> {
        // Another request with the token may have been first.
        if let Some(reviewed) = self.cached(&token) {
            return Ok(reviewed);
        }
        let Some(user) = self.reviews.review_token(&token).await? else {
            self.invalid.insert(token, (), self.lifetime);
            return Ok(Reviewed::Invalid);
        };
        self.valid.insert(token, user.clone(), self.lifetime);
        Ok(Reviewed::Valid(user))
    }
}

/// The token of `NAME: Bearer TOKEN`, for example with the name `Authorization`.
pub fn bearer_token(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let (scheme, rest) = value.trim().split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    is_bearer.then(|| token.to_owned())
}
