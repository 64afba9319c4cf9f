//! Reads the AWS credentials in environment variables, or those of a service account, a container
//! or an instance. Profile files and single sign-on are not supported.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri, header};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::{
    error::{FetchError, HttpError},
    guarded_http::{Destination, GuardedHttp, HttpRequest, http_error, url},
    settings::{Credential, Secret},
};

/// The remaining validity at which credentials are replaced.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// The timeout of requests to local metadata services. Such a service responds at once. If there is
/// none, the packets may get lost without an error.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_SESSION_NAME: &str = "hpa";
const INSTANCE_METADATA_URL: &str = "http://169.254.169.254";
const CONTAINER_CREDENTIALS_URL: &str = "http://169.254.170.2";
const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";

/// Credentials, decoded as the credential services of containers and instances write them. Only
/// those in environment variables may lack the token and the expiration.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AwsCredentials {
    pub(super) access_key_id: String,
    #[serde(rename = "SecretAccessKey")]
    pub(super) secret_key: Secret,
    #[serde(rename = "Token")]
    pub(super) session_token: Option<Secret>,
    pub(super) expiration: Option<Timestamp>,
}

/// Caches credentials until shortly before they expire. Those in environment variables don't
/// expire.
#[derive(Debug, Default)]
pub(crate) struct CredentialCache(Mutex<Option<AwsCredentials>>);

impl CredentialCache {
    /// Returns cached credentials, or requests new ones. Concurrent callers wait for one request.
    pub(super) async fn get(
        &self,
        http: &GuardedHttp,
        region: &str,
        now: Timestamp,
    ) -> Result<AwsCredentials, FetchError> {
        let mut cached = self.0.lock().await;
        let is_valid = |credentials: &&AwsCredentials| {
            credentials.expiration.is_none_or(|end| end.duration_since(now) > RENEWAL_MARGIN)
        };
        if let Some(credentials) = cached.as_ref().filter(is_valid) {
            return Ok(credentials.clone());
        }
        let credentials = CredentialSource { http, region }.credentials().await?;
        *cached = Some(credentials.clone());
        Ok(credentials)
    }
}

/// The URL of an AWS service, by default or from the environment variables of the AWS SDKs.
pub(super) fn endpoint(
    http: &GuardedHttp,
    service: &'static str,
    region: &str,
) -> Result<Uri, FetchError> {
    let variable = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
    let configured = http.env_var(&variable).or_else(|| http.env_var("AWS_ENDPOINT_URL"));
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let url = configured.unwrap_or_else(|| format!("https://{service}.{region}.{domain}/"));
    url::parse(&url).map_err(|_| FetchError::AwsEndpoint(service))
}

struct CredentialSource<'s> {
    http: &'s GuardedHttp,
    region: &'s str,
}

impl CredentialSource<'_> {
    /// Uses the first configured source, in the order of the AWS SDKs.
    async fn credentials(&self) -> Result<AwsCredentials, FetchError> {
        if let (Some(id), Some(key)) =
            (self.http.env_var("AWS_ACCESS_KEY_ID"), self.http.env_var("AWS_SECRET_ACCESS_KEY"))
        {
            let session_token = self.http.env_var("AWS_SESSION_TOKEN").map(Secret::new);
            let secret_key = Secret::new(key);
            return Ok(AwsCredentials {
                access_key_id: id,
                secret_key,
                session_token,
                expiration: None,
            });
        }
        if let (Some(file), Some(role)) =
            (self.http.env_var("AWS_WEB_IDENTITY_TOKEN_FILE"), self.http.env_var("AWS_ROLE_ARN"))
        {
            return self.web_identity(file, &role).await;
        }
        let relative = self.http.env_var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let absolute = self.http.env_var("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        if let Some(url) =
            relative.map(|path| format!("{CONTAINER_CREDENTIALS_URL}{path}")).or(absolute)
        {
            return self.container(&url).await;
        }
        self.instance().await
    }

    /// Assumes the role of a service account (IRSA).
    async fn web_identity(&self, file: String, role: &str) -> Result<AwsCredentials, FetchError> {
        let token = Credential::File(file.into()).read()?;
        let session = self.http.env_var("AWS_ROLE_SESSION_NAME");
        let session = session.unwrap_or_else(|| DEFAULT_SESSION_NAME.to_owned());
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", "AssumeRoleWithWebIdentity")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", role)
            .append_pair("RoleSessionName", &session)
            .append_pair("WebIdentityToken", token.text())
            .finish();
        let region = self.http.env_var("AWS_REGION").unwrap_or_else(|| self.region.to_owned());
        let endpoint = endpoint(self.http, "sts", &region)?;
        let request = HttpRequest::new(endpoint, Destination::Operator, self.http.limits(), "");
        let body = self.send(request.post("application/x-www-form-urlencoded", form)).await?;
        let body = String::from_utf8_lossy(&body);
        // These values never contain XML escapes, so the text needs no XML parser.
        let text = |name: &str| {
            let (_, after) = body.split_once(&format!("<{name}>"))?;
            let (value, _) = after.split_once(&format!("</{name}>"))?;
            Some(value.trim().to_owned())
        };
        let credentials = || {
            Some(AwsCredentials {
                access_key_id: text("AccessKeyId")?,
                secret_key: Secret::new(text("SecretAccessKey")?),
                session_token: Some(Secret::new(text("SessionToken")?)),
                expiration: Some(text("Expiration")?.parse().ok()?),
            })
        };
        credentials().ok_or_else(|| unexpected_response("it has no credentials of the role"))
    }

    /// Reads the credentials of a container (ECS, EKS Pod Identity).
    async fn container(&self, url: &str) -> Result<AwsCredentials, FetchError> {
        let token = self.http.env_var("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new);
        let file = self.http.env_var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        let file = file.map(|path| Credential::File(path.into()).read()).transpose()?;
        let mut request = self.local_request(Method::GET, url)?;
        if let Some(token) = file.or(token) {
            let value = HeaderValue::try_from(token.text())
                .map_err(|_| http_error(&request.uri, HttpError::Header))?;
            request = request.header(header::AUTHORIZATION, value);
        }
        decode(&self.send(request).await?)
    }

    /// Reads the credentials of an instance from the metadata service (`IMDSv2`).
    async fn instance(&self) -> Result<AwsCredentials, FetchError> {
        let disabled = self.http.env_var("AWS_EC2_METADATA_DISABLED");
        if disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(FetchError::NotConfigured("a credential for AWS"));
        }
        let endpoint = self.http.env_var("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let endpoint = endpoint.unwrap_or_else(|| INSTANCE_METADATA_URL.to_owned());
        let base = endpoint.trim_end_matches('/');
        let lifetime = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
        let request = self.local_request(Method::PUT, &format!("{base}/latest/api/token"))?;
        let token = self.send(request.header(lifetime, HeaderValue::from_static("300"))).await?;
        let token =
            HeaderValue::try_from(token).map_err(|_| unexpected_response("it has no token"))?;
        let get = async |path: &str| {
            let name = HeaderName::from_static("x-aws-ec2-metadata-token");
            let request = self.local_request(Method::GET, &format!("{base}{ROLE_PATH}{path}"))?;
            self.send(request.header(name, token.clone())).await
        };
        let roles = get("").await?;
        let roles = String::from_utf8_lossy(&roles);
        let role =
            roles.lines().next().ok_or_else(|| unexpected_response("the instance has no role"))?;
        decode(&get(role.trim()).await?)
    }

    /// Creates a request to a local metadata service. It never goes through a proxy.
    fn local_request(&self, method: Method, url: &str) -> Result<HttpRequest, FetchError> {
        let uri = url::parse(url).map_err(|_| FetchError::AwsEndpoint("for credentials"))?;
        let request = HttpRequest::new(uri, Destination::Local, self.http.limits(), "");
        Ok(HttpRequest {
            method,
            connect_timeout: LOCAL_TIMEOUT,
            timeout: LOCAL_TIMEOUT,
            ..request
        })
    }

    async fn send(&self, request: HttpRequest) -> Result<Vec<u8>, FetchError> {
        let reply = self.http.send(&request).await?;
        Ok(reply.ok().map_err(|source| http_error(&request.uri, source))?.body)
    }
}

fn decode(body: &[u8]) -> Result<AwsCredentials, FetchError> {
    let credentials: Option<AwsCredentials> = serde_json::from_slice(body).ok();
    let is_complete =
        |one: &AwsCredentials| one.session_token.is_some() && one.expiration.is_some();
    credentials.filter(is_complete).ok_or_else(|| unexpected_response("it has no credentials"))
}

fn unexpected_response(problem: &'static str) -> FetchError {
    FetchError::Response { service: "the source of credentials for AWS", problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn empty_endpoint_variable_counts_as_unset() {
        let http = GuardedHttp::new(&Settings::default()).with_environment(|name| match name {
            "AWS_ENDPOINT_URL_SQS" => Some(String::new()),
            _ => Some("http://aws.example/".to_owned()),
        });
        let url = endpoint(&http, "sqs", "eu-central-1").unwrap();
        assert_eq!(url.to_string(), "http://aws.example/");
    }
}
