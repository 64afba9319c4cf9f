//! Shares a serving certificate among replicas in a Secret, and makes the API services trust it.
//!
//! The Secret must exist, because RBAC can limit `update` to an object's name, but not `create`. If
//! the Secret has no usable certificate, or one that is due for renewal, the first replica that
//! reads the Secret generates a new certificate. Until the next renewal, the API services trust the
//! CAs of the old and the new certificate.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future::ready, stream::select_all};
use hpa_calc::MetricsApi;
use hpa_metrics::{ApiGroups, describe, watch_events};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    authentication::CaBundle,
    certificates::{GeneratedCertificate, LIFETIME},
    error::SetupError,
    metrics_api::group::{installed_apis, served_versions},
    server::{HandshakeSettings, ServingCertificate},
};

/// The interval between checks of the Secret and the API services. A change of an API service can
/// cause an earlier check.
const CHECK_INTERVAL: Duration = Duration::from_mins(10);

/// The delay between a change of an API service and the next check. It limits the requests if
/// another program keeps changing the object.
const CHANGE_DELAY: Duration = Duration::from_secs(2);

/// The delay after a failed check.
const RETRY_DELAY: Duration = Duration::from_secs(15);

/// The maximum number of attempts to write the Secret if others write it concurrently.
const MAX_ATTEMPTS: u32 = 5;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_BUNDLE: &str = "ca.crt";
/// The annotation with the renewal time of the certificate.
const RENEW_AFTER: &str = "adapter.hpa-rs.dev/renew-after";

/// A Service with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    namespace: String,
    name: String,
}

impl ServiceName {
    /// Parses `NAMESPACE/NAME`.
    pub fn parse(text: &str) -> Result<Self, SetupError> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(SetupError::new(format!("{text:?} is not NAMESPACE/NAME"))),
        }
    }

    /// The DNS names of the certificate. kube-apiserver verifies the first one.
    fn dns_names(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
            format!("{name}.{namespace}"),
            "localhost".to_owned(),
        ]
    }
}

/// Stores a serving certificate in a Secret, and keeps the `caBundle` of the API services up to
/// date.
pub struct CertificateController {
    client: Client,
    service: ServiceName,
    secret: String,
    groups: watch::Receiver<ApiGroups>,
}

impl CertificateController {
    /// A controller for the API services of these groups that refer to the Service. The Secret is
    /// in the namespace of the Service.
    pub fn new(
        client: Client,
        service: ServiceName,
        secret: &str,
        groups: watch::Receiver<ApiGroups>,
    ) -> Self {
        Self { client, service, secret: secret.to_owned(), groups }
    }

    /// Returns the certificate in the Secret. If it is missing, unusable or due for renewal,
    /// generates and stores a new one first.
    pub async fn ensure_certificate(&self) -> Result<GeneratedCertificate, SetupError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.service.namespace);
        let mut attempt = 1;
        loop {
            let mut secret =
                secrets.get(&self.secret).await.map_err(|error| self.secret_error(error))?;
            let now = Timestamp::now();
            if let Some(current) = current_certificate(&secret, now) {
                return Ok(current);
            }
            let mut generated = GeneratedCertificate::generate(&self.service.dns_names(), now)?;
            generated.ca_bundle.push_str(&previous_ca(&secret).unwrap_or_default());
            write_to_secret(&mut secret, &generated, now);
            match secrets.replace(&self.secret, &PostParams::default(), &secret).await {
                Ok(_) => {
                    info!(secret = self.secret, "stored a new serving certificate");
                    return Ok(generated);
                }
                // Another replica has probably stored a certificate.
                Err(kube::Error::Api(status)) if status.is_conflict() && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(self.secret_error(error)),
            }
        }
    }

    fn secret_error(&self, error: kube::Error) -> SetupError {
        let (namespace, name) = (&self.service.namespace, &self.secret);
        let message = format!(
            "unable to read or write the Secret {namespace}/{name} with the serving certificate"
        );
        SetupError::caused_by(message, error)
    }

    /// Keeps the certificate and the API services up to date until `stop` is cancelled.
    pub async fn run(self, certificate: Arc<ServingCertificate>, stop: CancellationToken) {
        let mut served: Option<GeneratedCertificate> = None;
        let mut groups = self.groups.clone();
        let mut services = self.watch_api_services();
        loop {
            let delay = match self.update(&certificate, &mut served).await {
                Ok(()) => CHECK_INTERVAL,
                Err(error) => {
                    let error = describe(&error);
                    warn!(
                        error,
                        "unable to update the serving certificate or the API services trusting it"
                    );
                    RETRY_DELAY
                }
            };
            let ca_bundle = served.as_ref().map(|served| &*served.ca_bundle);
            let changed = async {
                while let Some(service) = services.next().await {
                    if ca_bundle.is_none_or(|ca_bundle| self.must_update(&service, ca_bundle)) {
                        return tokio::time::sleep(CHANGE_DELAY).await;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
                () = changed => {}
                Ok(()) = groups.changed() => services = self.watch_api_services(),
            }
        }
    }

    fn api_service_names(&self) -> impl Iterator<Item = String> + use<'_> {
        let versions =
            |api: MetricsApi| served_versions(api).iter().map(move |version| (api, version));
        let all = installed_apis(*self.groups.borrow()).flat_map(versions);
        all.map(|(api, version)| format!("{version}.{}", api.group()))
    }

    /// The changed API services. Each has its own watch, because RBAC can limit a watch to one
    /// name.
    fn watch_api_services(&self) -> impl Stream<Item = APIService> + Unpin + Send + use<> {
        let services: Api<APIService> = Api::all(self.client.clone());
        let watches = self.api_service_names().map(|name| {
            let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let changes = watch_events(services.clone(), named).applied_objects();
            let mut is_failing = false;
            let changes = changes.filter_map(move |change| {
                if let Err(error) = &change
                    && !is_failing
                {
                    let error = describe(error);
                    warn!(
                        name,
                        error, "unable to watch the APIService; it is checked every 10 minutes"
                    );
                }
                is_failing = change.is_err();
                ready(change.ok())
            });
            changes.boxed()
        });
        select_all(watches)
    }

    /// Makes the API services trust the certificate in the Secret, and then serves with it. If an
    /// API service can't be updated, keeps the served certificate. An expired certificate, or one
    /// that the updated API services don't trust, is replaced nevertheless.
    async fn update(
        &self,
        certificate: &ServingCertificate,
        served: &mut Option<GeneratedCertificate>,
    ) -> Result<(), SetupError> {
        let stored = self.ensure_certificate().await?;
        let mut outcome = Ok(());
        for name in self.api_service_names() {
            // A failure for one API service must not affect the others.
            outcome = outcome.and(self.set_ca_bundle(&name, &stored.ca_bundle).await);
        }
        let is_trusted = |current: &GeneratedCertificate| {
            first_certificate(&current.ca_bundle).is_some_and(|ca| stored.ca_bundle.contains(ca))
        };
        let is_usable = served.as_ref().is_some_and(is_trusted) && !certificate.has_expired();
        if outcome.is_err() && is_usable {
            return outcome;
        }
        if served.as_ref() != Some(&stored) {
            let replaced = certificate.replace(&stored.chain, &stored.key);
            replaced.map_err(|error| {
                SetupError::caused_by("unable to use the serving certificate", error)
            })?;
            *served = Some(stored);
        }
        outcome
    }

    /// Sets the CAs that an API service trusts, unless it doesn't exist or refers to another
    /// Service.
    async fn set_ca_bundle(&self, name: &str, ca_bundle: &str) -> Result<(), SetupError> {
        let failed = |error: kube::Error| {
            let message = format!("unable to set the caBundle of the APIService {name}");
            SetupError::caused_by(message, error)
        };
        let services: Api<APIService> = Api::all(self.client.clone());
        let Some(current) = services.get_opt(name).await.map_err(failed)? else {
            warn!(name, "the APIService doesn't exist, so the API server doesn't serve this API");
            return Ok(());
        };
        if !self.refers_to_service(&current) {
            warn!(name, "the APIService refers to another Service and is not changed");
            return Ok(());
        }
        if !self.must_update(&current, ca_bundle) {
            return Ok(());
        }
        let bundle = ByteString(ca_bundle.as_bytes().to_vec());
        let patch = json!({
            "spec": { "caBundle": bundle, "insecureSkipTLSVerify": false },
        });
        let patched = services.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(failed)?;
        info!(name, "set the caBundle of the APIService");
        Ok(())
    }

    fn refers_to_service(&self, service: &APIService) -> bool {
        let target = service.spec.as_ref().and_then(|spec| spec.service.as_ref());
        target.is_some_and(|target| {
            target.name.as_deref() == Some(&*self.service.name)
                && target.namespace.as_deref() == Some(&*self.service.namespace)
        })
    }

    /// Whether an API service refers to the Service, but trusts other CAs or skips the
    /// verification.
    fn must_update(&self, service: &APIService, ca_bundle: &str) -> bool {
        let Some(spec) = &service.spec else { return false };
        let bundle = spec.ca_bundle.as_ref().map(|bundle| &*bundle.0);
        let is_insecure = spec.insecure_skip_tls_verify == Some(true);
        self.refers_to_service(service) && (bundle != Some(ca_bundle.as_bytes()) || is_insecure)
    }
}

/// The certificate in the Secret, if it and its CA are usable and it is not due for renewal.
fn current_certificate(secret: &Secret, now: Timestamp) -> Option<GeneratedCertificate> {
    let stored = certificate_in(secret).filter(|_| !must_renew(secret, now))?;
    let handshake = HandshakeSettings::default();
    let served = ServingCertificate::from_pem(&stored.chain, &stored.key, handshake);
    let ca_bundle = CaBundle::from_pem(stored.ca_bundle.as_bytes());
    (served.is_ok() && ca_bundle.is_ok()).then_some(stored)
}

fn certificate_in(secret: &Secret) -> Option<GeneratedCertificate> {
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
    };
    Some(GeneratedCertificate {
        chain: text(CERTIFICATE)?,
        key: text(KEY)?,
        ca_bundle: text(CA_BUNDLE)?,
    })
}

/// The CA of the certificate in the Secret, if it is usable. A malformed one would make the new
/// bundle unusable.
fn previous_ca(secret: &Secret) -> Option<String> {
    let bundle = certificate_in(secret)?.ca_bundle;
    let ca = first_certificate(&bundle)?;
    CaBundle::from_pem(ca.as_bytes()).is_ok().then(|| ca.to_owned())
}

/// Whether the certificate is due for renewal, or its renewal time is unknown.
fn must_renew(secret: &Secret, now: Timestamp) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let renew_after = annotations.and_then(|annotations| annotations.get(RENEW_AFTER));
    let renew_after = renew_after.and_then(|time| time.parse::<Timestamp>().ok());
    renew_after.is_none_or(|time| time <= now)
}

fn write_to_secret(secret: &mut Secret, generated: &GeneratedCertificate, now: Timestamp) {
    let data =
        [(CERTIFICATE, &generated.chain), (KEY, &generated.key), (CA_BUNDLE, &generated.ca_bundle)];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    secret.data.get_or_insert_with(BTreeMap::new).extend(data);
    let renew_after = now.saturating_add(LIFETIME * 2 / 3).unwrap_or(now);
    let annotations = secret.metadata.annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(RENEW_AFTER.to_owned(), renew_after.to_string());
}

/// The first certificate of a PEM bundle.
fn first_certificate(bundle: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let end = bundle.find(END)?;
    bundle.get(..end + END.len())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use jiff::SignedDuration;
    use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
        APIServiceSpec, ServiceReference,
    };
    use kube::client::Body;
    use parking_lot::Mutex;

    use super::*;

    fn generated() -> GeneratedCertificate {
        let service = ServiceName::parse("monitoring/adapter").unwrap();
        GeneratedCertificate::generate(&service.dns_names(), Timestamp::now()).unwrap()
    }

    #[test]
    fn certificate_is_renewed_when_a_third_of_its_time_is_left() {
        let now = Timestamp::now();
        let mut secret = Secret::default();
        assert!(certificate_in(&secret).is_none() && must_renew(&secret, now));
        let stored = generated();
        write_to_secret(&mut secret, &stored, now);
        assert_eq!(certificate_in(&secret), Some(stored));
        let days = |days: i64| now + SignedDuration::from_hours(24 * days);
        assert!(!must_renew(&secret, days(243)));
        assert!(must_renew(&secret, days(244)));
    }

    #[test]
    fn unusable_certificate_is_replaced() {
        let now = Timestamp::now();
        let current = |change: fn(&mut GeneratedCertificate)| {
            let (mut secret, mut stored) = (Secret::default(), generated());
            change(&mut stored);
            write_to_secret(&mut secret, &stored, now);
            current_certificate(&secret, now)
        };
        assert!(current(|_| {}).is_some());
        assert_eq!(current(|stored| stored.key = generated().key), None);
        assert_eq!(current(|stored| stored.chain = "garbage".to_owned()), None);
        assert_eq!(current(|stored| stored.ca_bundle = "garbage".to_owned()), None);
    }

    #[test]
    fn only_a_usable_ca_is_kept_after_a_renewal() {
        let (mut secret, mut stored) = (Secret::default(), generated());
        write_to_secret(&mut secret, &stored, Timestamp::now());
        assert_eq!(previous_ca(&secret).as_ref(), Some(&stored.ca_bundle));
        stored.ca_bundle =
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        write_to_secret(&mut secret, &stored, Timestamp::now());
        assert_eq!(previous_ca(&secret), None);
    }

    #[tokio::test]
    async fn refused_api_service_does_not_affect_the_others() {
        let (mut secret, old, mut stored) = (Secret::default(), generated(), generated());
        stored.ca_bundle.push_str(&old.ca_bundle);
        write_to_secret(&mut secret, &stored, Timestamp::now());
        let service = ServiceName::parse("monitoring/adapter").unwrap();
        let target = ServiceReference {
            name: Some(service.name.clone()),
            namespace: Some(service.namespace.clone()),
            ..ServiceReference::default()
        };
        let spec = APIServiceSpec { service: Some(target), ..APIServiceSpec::default() };
        let api_service = APIService { spec: Some(spec), ..APIService::default() };
        let patched = Arc::<Mutex<Vec<String>>>::default();
        let record = patched.clone();
        let api_server = tower::service_fn(move |request: Request<Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            let (code, object): (u16, _) = match name {
                "certificate" => (200, json!(secret)),
                "v1beta1.custom.metrics.k8s.io" => (403, json!({ "code": 403, "message": "no" })),
                _ => (200, json!(api_service)),
            };
            if request.method() == "PATCH" {
                record.lock().push(name.to_owned());
            }
            let body = Body::from(object.to_string().into_bytes());
            ready(Response::builder().status(code).body(body))
        });
        let groups = watch::channel(ApiGroups::ALL).1;
        let client = Client::new(api_server, "default");
        let controller = CertificateController::new(client, service, "certificate", groups);
        let handshake = HandshakeSettings::default();
        let certificate = ServingCertificate::from_pem(&stored.chain, &stored.key, handshake);
        let certificate = certificate.unwrap();
        let expected = "unable to set the caBundle of the APIService v1beta1.custom.metrics.k8s.io";
        // The API services trust the CA of `old`, but not that of another certificate.
        for (current, served) in [(old.clone(), &old), (generated(), &stored)] {
            let mut current = Some(current);
            let error = controller.update(&certificate, &mut current).await.unwrap_err();
            assert_eq!((error.to_string().as_str(), current.as_ref()), (expected, Some(served)));
        }
        let others = [
            "v1beta2.custom.metrics.k8s.io",
            "v1beta1.external.metrics.k8s.io",
            "v1beta1.metrics.k8s.io",
        ];
        assert_eq!(*patched.lock(), [others, others].concat());

        let last_year = Timestamp::now() - SignedDuration::from_hours(400 * 24);
        let expired = GeneratedCertificate::generate(&["localhost".to_owned()], last_year).unwrap();
        certificate.replace(&expired.chain, &expired.key).unwrap();
        let mut current = Some(old);
        controller.update(&certificate, &mut current).await.unwrap_err();
        assert_eq!(current, Some(stored), "clients refuse an expired certificate");
    }

    #[test]
    fn first_certificate_of_a_bundle_is_found() {
        let (old, new) = (generated(), generated());
        let bundle = format!("{}{}", new.ca_bundle, old.ca_bundle);
        assert_eq!(first_certificate(&bundle), Some(&*new.ca_bundle));
        assert_eq!(first_certificate("x"), None);
    }

    #[test]
    fn service_name_without_a_namespace_is_rejected() {
        for text in ["adapter", "/adapter", "monitoring/", "a/b/c"] {
            let error = ServiceName::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is not NAMESPACE/NAME"));
        }
    }
}
