//! Authentication and authorization as kube-apiserver delegates them to other servers: the API
//! server reviews tokens and accesses. Reviews are cached, and those that run at a time are bounded.
//!
//! The users, and what they may do, are those of the cluster. `hpa adapter` and the debug API of
//! `hpa run` use this.

#![warn(missing_docs)]

mod authorization;
mod limit;
mod log_limit;
mod review;
mod token;
mod ttl_cache;
mod user;

pub use authorization::{Authorizer, AuthorizerOptions};
pub use limit::ReviewLimit;
pub use log_limit::LogLimit;
pub use review::{Access, AccessReviews, AudienceReviews, ReviewError, TokenReviews};
pub use token::{TokenAuthenticator, TokenError, bearer_token};
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
