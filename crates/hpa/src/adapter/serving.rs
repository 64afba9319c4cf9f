//! The serving certificate: from files, generated in a directory, stored in a Secret, or temporary.

use std::sync::Arc;

use anyhow::Context;
use hpa_adapter::{
    api_service::{CertificateController, ServiceName},
    authentication::ClientKeyVerifier,
    certificates::{self, GeneratedCertificate},
    server::{HandshakeSettings, ServerOptions, ServingCertificate},
};
use hpa_lease::TaskPanics;
use hpa_metrics::ApiGroups;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::ServingArguments;

/// Loads or generates the certificate that the flags configure. If it is stored in a Secret, also
/// starts the task that renews it.
pub(super) async fn load_certificate(
    arguments: &ServingArguments,
    options: ServerOptions,
    client: &kube::Client,
    groups: watch::Receiver<ApiGroups>,
    panics: &TaskPanics,
    stop: &CancellationToken,
) -> anyhow::Result<Arc<ServingCertificate>> {
    let versions = match arguments.tls_min_version.as_str() {
        "VersionTLS13" => vec![&TLS13],
        _ => vec![&TLS13, &TLS12],
    };
    let handshake = HandshakeSettings {
        client_verifier: Some(ClientKeyVerifier::new()),
        protocols: options.protocols(),
        versions,
    };
    if let (Some(service), Some(secret)) = (&arguments.service, &arguments.serving_secret) {
        let service = ServiceName::parse(service).context("--service")?;
        let controller = CertificateController::new(client.clone(), service, secret, groups);
        let stored = controller.ensure_certificate().await?;
        let certificate = ServingCertificate::from_pem(&stored.chain, &stored.key, handshake);
        let certificate = Arc::new(certificate?);
        panics.spawn("certificate controller", controller.run(certificate.clone(), stop.clone()));
        return Ok(certificate);
    }
    if let (Some(chain), Some(key)) = (&arguments.tls_cert_file, &arguments.tls_private_key_file) {
        let certificate = ServingCertificate::from_files(chain.clone(), key.clone(), handshake)?;
        return Ok(Arc::new(certificate));
    }
    let directory = &arguments.cert_dir;
    if !directory.as_os_str().is_empty() {
        match certificates::find_or_generate(directory, Timestamp::now()) {
            Ok((chain, key)) => {
                info!(certificate = %chain.display(), "using the certificate of --cert-dir");
                let certificate = ServingCertificate::from_files(chain, key, handshake)?;
                return Ok(Arc::new(certificate));
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                warn!(
                    %error,
                    cause,
                    "generating a temporary certificate, which is not kept after a restart"
                );
            }
        }
    }
    let generated = GeneratedCertificate::generate(&certificates::local_names(), Timestamp::now())?;
    let certificate = ServingCertificate::from_pem(&generated.chain, &generated.key, handshake);
    Ok(Arc::new(certificate?))
}
