//! Authenticates bearer tokens with reviews by the API server.
//!
//! Any client can send invalid tokens, and each of them needs a review. They must not delay valid
//! tokens: tokens that were valid within the last hour have their own limit, and the rate of all
//! other reviews is limited, in total and by network.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderName, header};

use crate::reviews::{
    User,
    limit::{Flow, Rate, ReviewLimit},
    review::{ReviewError, TokenReviews},
    ttl_cache::TtlCache,
};

/// The maximum number of tokens in the cache of valid tokens, and in the cache of invalid ones.
const CAPACITY: usize = 512;

/// The limits of running and of waiting reviews. Known and unknown tokens each have both.
const MAX_RUNNING: usize = 16;
const MAX_WAITING: usize = 112;

/// The rate of reviews of unknown tokens, in total and of a network.
const UNKNOWN_RATE: Rate = Rate { per_second: 40, burst: 80 };
const UNKNOWN_RATE_OF_NETWORK: Rate = Rate { per_second: 5, burst: 20 };

/// A token that was valid within this time uses the limit for known tokens.
const KNOWN_LIFETIME: Duration = Duration::from_hours(1);
const MAX_KNOWN: usize = 4096;

/// The maximum length of a token, which bounds the memory of the cache.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Determines the users of bearer tokens by cached reviews.
pub struct TokenAuthenticator {
    reviews: Arc<dyn TokenReviews>,
    lifetime: Duration,
    valid: TtlCache<String, User>,
    invalid: TtlCache<String, ()>,
    /// Hashes of tokens that were valid. They only select the limit of a review.
    known: TtlCache<u64, ()>,
    hasher: RandomState,
    known_limit: ReviewLimit,
    unknown_limit: ReviewLimit,
}

enum ReviewResult {
    Valid(User),
    Invalid,
}

/// A refused token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    #[error("invalid bearer token")]
    Invalid,
    #[error("unable to review the token")]
    Review(#[from] ReviewError),
}

impl TokenAuthenticator {
    /// An authenticator that caches reviews for `lifetime`.
    pub fn new(reviews: Arc<dyn TokenReviews>, lifetime: Duration) -> Self {
        Self {
            reviews,
            lifetime,
            valid: TtlCache::new(CAPACITY),
            invalid: TtlCache::new(CAPACITY),
            known: TtlCache::new(MAX_KNOWN),
            hasher: RandomState::new(),
            known_limit: ReviewLimit::new(MAX_RUNNING, MAX_WAITING),
            unknown_limit: ReviewLimit::new(MAX_RUNNING, MAX_WAITING)
                .with_rate(UNKNOWN_RATE, UNKNOWN_RATE_OF_NETWORK),
        }
    }

    /// The user of the token in the header `Authorization`. `None` if there is no token.
    pub async fn authenticate(
        &self,
        client: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<User>, TokenError> {
        match bearer_token(headers, &header::AUTHORIZATION) {
            Some(token) => self.user_of_token(client, token).await.map(Some),
            None => Ok(None),
        }
    }

    /// The user of a client's token.
    pub async fn user_of_token(&self, client: IpAddr, token: String) -> Result<User, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Invalid);
        }
        let reviewed = match self.cached_result(&token) {
            Some(reviewed) => reviewed,
            None => self.limited_review(client, token).await?,
        };
        match reviewed {
            ReviewResult::Valid(user) => Ok(user),
            ReviewResult::Invalid => Err(TokenError::Invalid),
        }
    }

    fn cached_result(&self, token: &String) -> Option<ReviewResult> {
        let invalid = || self.invalid.get(token).map(|()| ReviewResult::Invalid);
        self.valid.get(token).map(ReviewResult::Valid).or_else(invalid)
    }

    async fn limited_review(
        &self,
        client: IpAddr,
        token: String,
    ) -> Result<ReviewResult, ReviewError> {
        let is_known = self.known.get(&self.hasher.hash_one(&token)).is_some();
        let limit = if is_known { &self.known_limit } else { &self.unknown_limit };
        limit.run(Flow::of_address(client), self.review(token)).await
    }

    async fn review(&self, token: String) -> Result<ReviewResult, ReviewError> {
        // Another request may have reviewed the token while this one waited.
        if let Some(reviewed) = self.cached_result(&token) {
            return Ok(reviewed);
        }
        let Some(user) = self.reviews.review_token(&token).await? else {
            self.invalid.insert(token, (), self.lifetime);
            return Ok(ReviewResult::Invalid);
        };
        self.known.insert(self.hasher.hash_one(&token), (), KNOWN_LIFETIME);
        self.valid.insert(token, user.clone(), self.lifetime);
        Ok(ReviewResult::Valid(user))
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
