//! Authorizes requests.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use crate::{
    metrics_api::{RequestInfo, ResourceAttributes},
    reviews::{
        MASTERS, User,
        limit::{Flow, ReviewLimit},
        review::{Access, AccessReviews, ReviewError},
        ttl_cache::TtlCache,
    },
};

/// The maximum number of cached reviews. kube-controller-manager causes at least one per metric and
/// namespace.
const CAPACITY: usize = 4096;

/// The maximum length of a cache key, which bounds the memory of the cache. Reviews with longer
/// keys aren't cached.
const MAX_KEY_BYTES: usize = 4096;

/// Allows or denies requests by cached reviews.
pub struct Authorizer {
    reviews: Arc<dyn AccessReviews>,
    /// Without leading slashes.
    always_allowed: Vec<String>,
    allowed_lifetime: Duration,
    denied_lifetime: Duration,
    cache: TtlCache<Key, Access>,
}

/// A user, and the request as encoded by [`key`].
type Key = (User, Arc<str>);

/// The lifetimes of cached reviews, and the paths without reviews.
#[derive(Clone, Debug)]
pub struct AuthorizerOptions {
    /// Paths that everyone may request. A path that ends with `*` is a prefix.
    pub always_allowed: Vec<String>,
    /// The lifetime of a review that allows access.
    pub allowed_lifetime: Duration,
    /// The lifetime of a review that denies access.
    pub denied_lifetime: Duration,
}

impl Authorizer {
    pub fn new(reviews: Arc<dyn AccessReviews>, options: &AuthorizerOptions) -> Self {
        let always_allowed = options.always_allowed.iter();
        let always_allowed = always_allowed.map(|path| path.trim_start_matches('/').to_owned());
        Self {
            reviews,
            always_allowed: always_allowed.collect(),
            allowed_lifetime: options.allowed_lifetime,
            denied_lifetime: options.denied_lifetime,
            cache: TtlCache::new(CAPACITY),
        }
    }

    /// Whether a user may send a request. A review by the API server counts towards the limit of
    /// the flow.
    pub async fn authorize(
        &self,
        user: &User,
        request: &RequestInfo,
        (limit, flow): (&ReviewLimit, Flow),
    ) -> Result<Access, ReviewError> {
        let allowed = Access { allowed: true, reason: String::new() };
        if user.is_in(MASTERS) || self.is_always_allowed(request) {
            return Ok(allowed);
        }
        let key = (user.clone(), key(request));
        if let Some(access) = self.cache.get(&key) {
            return Ok(access);
        }
        limit.run(flow, self.review(key, user, request)).await
    }

    async fn review(
        &self,
        key: Key,
        user: &User,
        request: &RequestInfo,
    ) -> Result<Access, ReviewError> {
        // An equal request may have been reviewed while this one waited.
        if let Some(access) = self.cache.get(&key) {
            return Ok(access);
        }
        let access = self.reviews.review_access(user, request).await?;
        let lifetime = if access.allowed { self.allowed_lifetime } else { self.denied_lifetime };
        if user.text_bytes() + key.1.len() <= MAX_KEY_BYTES {
            self.cache.insert(key, access.clone(), lifetime);
        }
        Ok(access)
    }

    /// Whether every user may send a request, without a review.
    pub fn is_always_allowed(&self, request: &RequestInfo) -> bool {
        let path = request.path.trim_start_matches('/');
        request.resource.is_none()
            && self.always_allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == allowed,
            })
    }
}

/// The part of a cache key that identifies the request. It is JSON: different requests can't have
/// the same key.
fn key(request: &RequestInfo) -> Arc<str> {
    let parts = match &request.resource {
        None => json!([request.verb, request.path]),
        Some(ResourceAttributes {
            group, version, namespace, resource, subresource, name, ..
        }) => {
            json!([request.verb, group, version, namespace, resource, subresource, name])
        }
    };
    parts.to_string().into()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;
    use rstest::rstest;

    use super::*;
    use crate::metrics_api::UrlQuery;

    /// Allows a user only the verb that equals the user's name: `get` may get.
    #[derive(Default)]
    struct VerbReviews {
        reviewed: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl AccessReviews for VerbReviews {
        async fn review_access(
            &self,
            user: &User,
            request: &RequestInfo,
        ) -> Result<Access, ReviewError> {
            self.reviewed.lock().push(format!("{} {}", user.name, request.path));
            Ok(Access { allowed: user.name == request.verb, reason: "rule".to_owned() })
        }
    }

    fn authorizer(reviews: &Arc<VerbReviews>) -> Authorizer {
        let options = AuthorizerOptions {
            always_allowed: vec!["/healthz".to_owned(), "/public/*".to_owned()],
            allowed_lifetime: Duration::from_secs(60),
            denied_lifetime: Duration::from_secs(10),
        };
        Authorizer::new(reviews.clone(), &options)
    }

    fn request(path: &str) -> RequestInfo {
        RequestInfo::new("GET", path, &UrlQuery::default()).unwrap()
    }

    async fn is_allowed(authorizer: &Authorizer, user: &User, path: &str) -> bool {
        let limit = ReviewLimit::new(2, 2);
        authorizer
            .authorize(user, &request(path), (&limit, Flow::of_user(user)))
            .await
            .unwrap()
            .allowed
    }

    #[rstest]
    #[case("eve", &[], "/healthz", true, false)]
    #[case("eve", &[], "/healthz/x", false, true)]
    #[case("eve", &[], "/public/x", true, false)]
    #[case("eve", &[], "/metrics", false, true)]
    #[case("get", &[], "/metrics", true, true)]
    #[case("eve", &["system:masters"], "/metrics", true, false)]
    #[case("system:masters", &[], "/metrics", false, true)]
    #[case("eve", &[], "/apis/g/v/public/x", false, true)]
    #[tokio::test]
    async fn masters_and_public_paths_need_no_review(
        #[case] user: &str,
        #[case] groups: &[&str],
        #[case] path: &str,
        #[case] allowed: bool,
        #[case] is_reviewed: bool,
    ) {
        let reviews = Arc::<VerbReviews>::default();
        let authorizer = authorizer(&reviews);
        assert_eq!(is_allowed(&authorizer, &User::new(user, groups), path).await, allowed);
        assert_eq!(!reviews.reviewed.lock().is_empty(), is_reviewed);
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_are_cached_by_user_and_request() {
        let reviews = Arc::<VerbReviews>::default();
        let authorizer = authorizer(&reviews);
        let (get, eve) = (User::new("get", &[]), User::new("eve", &[]));
        for _ in 0..2 {
            assert!(is_allowed(&authorizer, &get, "/metrics").await);
            assert!(!is_allowed(&authorizer, &eve, "/metrics").await);
            assert!(!is_allowed(&authorizer, &eve, "/version").await);
        }
        let other_group = User::new("get", &["admins"]);
        assert!(is_allowed(&authorizer, &other_group, "/metrics").await);
        assert_eq!(reviews.reviewed.lock().len(), 4);
        tokio::time::advance(Duration::from_secs(11)).await;
        is_allowed(&authorizer, &eve, "/metrics").await;
        is_allowed(&authorizer, &get, "/metrics").await;
        assert_eq!(reviews.reviewed.lock().len(), 5, "denials are cached for less time");
    }
}
