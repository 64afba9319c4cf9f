//! Requests reviews of tokens and accesses from the API server.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use crate::{metrics_api::RequestInfo, reviews::User};

/// The time limit of a review.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    #[error("the request for a review failed")]
    Request(#[from] kube::Error),
    #[error("the API server sent no review within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("too many requests need a review")]
    TooMany,
    #[error("the review allows and denies the access")]
    Contradiction,
}

#[async_trait]
pub trait TokenReviews: Send + Sync {
    /// The user of a token. `None` if the token is not valid.
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError>;
}

/// The result of an access review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub allowed: bool,
    /// May be empty.
    pub reason: String,
}

#[async_trait]
pub trait AccessReviews: Send + Sync {
    /// Whether a user may send a request.
    async fn review_access(
        &self,
        user: &User,
        request: &RequestInfo,
    ) -> Result<Access, ReviewError>;
}

#[async_trait]
impl TokenReviews for Client {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        Ok(review_status(self, spec).await?.and_then(|status| status.user).and_then(user))
    }
}

/// Reviews tokens for an audience. Tokens for other audiences are invalid.
#[derive(Clone)]
pub struct AudienceReviews {
    client: Client,
    audience: String,
}

impl AudienceReviews {
    pub fn new(client: Client, audience: &str) -> Self {
        Self { client, audience: audience.to_owned() }
    }
}

#[async_trait]
impl TokenReviews for AudienceReviews {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let audiences = Some(vec![self.audience.clone()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let status = review_status(&self.client, spec).await?;
        // Without audiences in the status, the API server ignored the requested one.
        let is_for_audience = |status: &TokenReviewStatus| {
            status.audiences.iter().flatten().any(|audience| *audience == self.audience)
        };
        Ok(status.filter(is_for_audience).and_then(|status| status.user).and_then(user))
    }
}

/// The status of a token review, if the token is valid.
async fn review_status(
    client: &Client,
    spec: TokenReviewSpec,
) -> Result<Option<TokenReviewStatus>, ReviewError> {
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let created = timeout(TIMEOUT, reviews.create(&parameters, &review)).await;
    let created = created.map_err(|_| ReviewError::Timeout)??;
    Ok(created.status.filter(|status| status.authenticated == Some(true)))
}

/// The user of a token review. `None` if the review has no name.
fn user(info: UserInfo) -> Option<User> {
    Some(User {
        name: info.username.filter(|name| !name.is_empty())?,
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default(),
    })
}

#[async_trait]
impl AccessReviews for Client {
    async fn review_access(
        &self,
        user: &User,
        request: &RequestInfo,
    ) -> Result<Access, ReviewError> {
        let review = SubjectAccessReview {
            spec: access_spec(user, request),
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.clone());
        let parameters = PostParams::default();
        let created = timeout(TIMEOUT, reviews.create(&parameters, &review)).await;
        let status = created.map_err(|_| ReviewError::Timeout)??.status.unwrap_or_default();
        if status.allowed && status.denied == Some(true) {
            return Err(ReviewError::Contradiction);
        }
        Ok(Access { allowed: status.allowed, reason: status.reason.unwrap_or_default() })
    }
}

fn access_spec(user: &User, request: &RequestInfo) -> SubjectAccessReviewSpec {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: non_empty(&user.uid),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match &request.resource {
        Some(resource) => {
            spec.resource_attributes = Some(ResourceAttributes {
                namespace: non_empty(&resource.namespace),
                verb: non_empty(&request.verb),
                group: non_empty(&resource.group),
                version: non_empty(&resource.version),
                resource: non_empty(&resource.resource),
                subresource: non_empty(&resource.subresource),
                name: non_empty(&resource.name),
                ..ResourceAttributes::default()
            });
        }
        None => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                path: non_empty(&request.path),
                verb: non_empty(&request.verb),
            });
        }
    }
    spec
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviewed_token_without_a_user_name_is_invalid() {
        let info = |name: &str| UserInfo { username: Some(name.to_owned()), ..UserInfo::default() };
        assert_eq!(user(info("jane")), Some(User::new("jane", &[])));
        assert_eq!(user(info("")), None);
        assert_eq!(user(UserInfo::default()), None);
    }
}
