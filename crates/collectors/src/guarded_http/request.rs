//! A request, and the kind of its destination.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use hyper::body::Bytes;

use crate::{
    error::HttpError,
    settings::{Limits, Secret},
};

/// The kind of a destination. It determines which checks apply to the URL and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A tenant's URL: host and addresses are checked.
    Tenant,
    /// A pod's URL: its address is checked.
    Pod,
    /// The operator's URL: nothing is checked.
    Operator,
    /// Like `Operator`, but never through a proxy: for example a metadata service.
    Local,
}

/// A request with its limits.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The namespace whose share of connections is used. Empty for requests for AWS credentials,
    /// which all tenants share.
    pub(crate) namespace: Arc<str>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) destination: Destination,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

impl HttpRequest {
    /// A GET request.
    pub(crate) fn new(
        uri: Uri,
        destination: Destination,
        limits: &Limits,
        namespace: &str,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            method: Method::GET,
            uri,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            destination,
            connect_timeout: limits.request_timeout,
            timeout: limits.request_timeout,
        }
    }

    /// Makes this a POST request with a body.
    #[must_use]
    pub fn post(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let request = Self { method: Method::POST, body: body.into(), ..self };
        request.header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
    }

    /// Sets a header.
    #[must_use]
    pub fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds the header `Authorization`, which consists of the scheme and the token.
    pub(crate) fn with_authorization(
        self,
        scheme: &str,
        token: &Secret,
    ) -> Result<Self, HttpError> {
        let value = HeaderValue::try_from(format!("{scheme} {}", token.text()));
        let mut value = value.map_err(|_| HttpError::Header)?;
        value.set_sensitive(true);
        Ok(self.header(header::AUTHORIZATION, value))
    }
}
