//! Accepted and refused credentials.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use rcgen::ExtendedKeyUsagePurpose;
use tokio_rustls::rustls::{
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::danger::ClientCertVerifier,
};

use super::{AuthenticatedUser, Authenticator, ClientKeyVerifier, Peer, TokenAuthenticator, Trust};
use crate::{
    reviews::{ReviewError, TokenReviews, User},
    test_certificates::{ClusterCas, Leaf, authority, leaf},
};

/// Only the token `valid` is valid. The review of `unreviewed` fails.
#[derive(Default)]
struct TestReviews {
    reviewed: Mutex<Vec<String>>,
}

#[async_trait]
impl TokenReviews for TestReviews {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.reviewed.lock().push(token.to_owned());
        match token {
            "valid" => Ok(Some(User::new("system:serviceaccount:shop:web", &["shop"]))),
            "unreviewed" => Err(ReviewError::Timeout),
            _ => Ok(None),
        }
    }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn peer(chain: Vec<CertificateDer<'static>>) -> Peer {
    Peer::new([127, 0, 0, 1].into(), chain)
}

/// The user as `NAME [GROUPS]`, or `refused`.
async fn outcome(
    trust: Trust,
    chain: Option<Vec<CertificateDer<'static>>>,
    pairs: &[(&str, &str)],
) -> String {
    let tokens = TokenAuthenticator::new(Arc::<TestReviews>::default(), Duration::from_secs(10));
    let authenticator = Authenticator::new(trust, Some(tokens));
    let peer = peer(chain.unwrap_or_default());
    match authenticator.authenticate(&peer, &headers(pairs)).await {
        Ok(AuthenticatedUser { user, .. }) => format!("{} [{}]", user.name, user.groups.join(",")),
        Err(_) => "refused".to_owned(),
    }
}

const ANONYMOUS: &str = "system:anonymous [system:unauthenticated]";
const REFUSED: &str = "refused";
/// The headers of a front proxy. Any other client forges them.
const REMOTE: &[(&str, &str)] = &[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
const ADMIN: &str = "admin [system:masters,system:authenticated]";
const WEB: &str = "system:serviceaccount:shop:web [shop,system:authenticated]";
const BEARER: &[(&str, &str)] = &[("Authorization", "Bearer valid")];
const TWO_TOKENS: &[(&str, &str)] =
    &[("Authorization", "Bearer x"), ("Authorization", "Bearer valid")];

/// The name of the case, the certificate and headers of a client, and the expected user.
type CredentialsCase<'a> =
    (&'a str, Option<Vec<CertificateDer<'static>>>, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn only_valid_credentials_name_a_user() {
    let cluster = ClusterCas::new();
    let (proxy, client, unknown) = (&cluster.front_proxy, &cluster.clients, &cluster.unknown);
    let server_usage = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut tampered = leaf("front-proxy-client").issued_by(proxy);
    tampered[0] = {
        let mut der = tampered[0].to_vec();
        let last = der.len() - 1;
        der[last] ^= 1;
        der.into()
    };
    let token_and_forged_headers: Vec<(&str, &str)> = [BEARER, REMOTE].concat();
    let masters: &[&str] = &["system:masters"];
    let garbage = CertificateDer::from(b"no certificate".to_vec());
    let proxy_leaf = leaf("front-proxy-client");
    let invalid_bearer: &[(&str, &str)] = &[("Authorization", "Bearer invalid")];
    let rows: Vec<CredentialsCase<'_>> = vec![
        // Without a certificate.
        ("nothing", None, &[], ANONYMOUS),
        ("forged headers", None, REMOTE, ANONYMOUS),
        ("forged headers in lower case", None, &[("x-remote-user", "admin")], ANONYMOUS),
        ("forged user twice", None, &[("X-Remote-User", "a"), ("X-Remote-User", "b")], ANONYMOUS),
        ("forged UID", None, &[("X-Remote-Uid", "0")], ANONYMOUS),
        ("forged group alone", None, &[("X-Remote-Group", "system:masters")], ANONYMOUS),
        ("forged extra", None, &[("X-Remote-Extra-Scopes", "all")], ANONYMOUS),
        ("impersonation", None, &[("Impersonate-User", "admin")], ANONYMOUS),
        ("token", None, BEARER, WEB),
        ("token with scheme in lower case", None, &[("Authorization", "bearer valid")], WEB),
        ("token with forged headers", None, &token_and_forged_headers, WEB),
        ("invalid token", None, invalid_bearer, REFUSED),
        (
            "invalid token with forged headers",
            None,
            &[("Authorization", "Bearer invalid"), ("X-Remote-User", "admin")],
            REFUSED,
        ),
        ("unreviewed token", None, &[("Authorization", "Bearer unreviewed")], REFUSED),
        ("token in other case", None, &[("Authorization", "Bearer VALID")], REFUSED),
        ("token with a suffix", None, &[("Authorization", "Bearer valid2")], REFUSED),
        ("two tokens", None, TWO_TOKENS, REFUSED),
        ("token after a comma", None, &[("Authorization", "Bearer x,Bearer valid")], REFUSED),
        ("empty token", None, &[("Authorization", "Bearer ")], ANONYMOUS),
        ("token after two spaces", None, &[("Authorization", "Bearer  valid")], ANONYMOUS),
        ("basic authentication", None, &[("Authorization", "Basic dmFsaWQ6dmFsaWQ=")], ANONYMOUS),
        ("token without scheme", None, &[("Authorization", "valid")], ANONYMOUS),
        ("token that is not UTF-8", None, &[("Authorization", "Bearer \u{ff}valid")], REFUSED),
        // With a certificate of the front proxy's authority.
        ("front proxy", Some(proxy_leaf.issued_by(proxy)), REMOTE, ADMIN),
        (
            "front proxy with an empty user",
            Some(proxy_leaf.issued_by(proxy)),
            &[("X-Remote-User", "")],
            REFUSED,
        ),
        ("front proxy without a user", Some(proxy_leaf.issued_by(proxy)), &[], REFUSED),
        (
            "front proxy with a group only",
            Some(proxy_leaf.issued_by(proxy)),
            &[("X-Remote-Group", "system:masters")],
            REFUSED,
        ),
        (
            "front proxy for an anonymous user",
            Some(proxy_leaf.issued_by(proxy)),
            &[("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")],
            ANONYMOUS,
        ),
        ("other name", Some(leaf("kubelet").issued_by(proxy)), REMOTE, REFUSED),
        ("no name", Some(leaf("").issued_by(proxy)), REMOTE, REFUSED),
        ("name with a suffix", Some(leaf("front-proxy-client2").issued_by(proxy)), REMOTE, REFUSED),
        ("name in other case", Some(leaf("Front-Proxy-Client").issued_by(proxy)), REMOTE, REFUSED),
        (
            "name in the organization",
            Some(Leaf { organizations: &["front-proxy-client"], ..leaf("x") }.issued_by(proxy)),
            REMOTE,
            REFUSED,
        ),
        (
            "expired front proxy",
            Some(Leaf { years: (2019, 2020), ..proxy_leaf.clone() }.issued_by(proxy)),
            REMOTE,
            REFUSED,
        ),
        (
            "front proxy of the future",
            Some(Leaf { years: (2090, 2100), ..proxy_leaf.clone() }.issued_by(proxy)),
            REMOTE,
            REFUSED,
        ),
        (
            "serving certificate of the front proxy",
            Some(Leaf { usages: server_usage.clone(), ..proxy_leaf.clone() }.issued_by(proxy)),
            REMOTE,
            REFUSED,
        ),
        (
            "intermediate authority as front proxy",
            Some(Leaf { is_authority: true, ..proxy_leaf.clone() }.issued_by(proxy)),
            REMOTE,
            REFUSED,
        ),
        ("tampered front proxy", Some(tampered), REMOTE, REFUSED),
        ("the authority itself", Some(vec![proxy.der().clone()]), REMOTE, REFUSED),
        (
            "front proxy of an unknown authority",
            Some(proxy_leaf.issued_by(unknown)),
            REMOTE,
            REFUSED,
        ),
        (
            "unknown front proxy with a known authority in the chain",
            Some([proxy_leaf.issued_by(unknown), vec![proxy.der().clone()]].concat()),
            REMOTE,
            REFUSED,
        ),
        (
            "unknown front proxy before a valid one",
            Some([proxy_leaf.issued_by(unknown), proxy_leaf.issued_by(proxy)].concat()),
            REMOTE,
            REFUSED,
        ),
        ("garbage", Some(vec![garbage.clone()]), REMOTE, REFUSED),
        (
            "garbage before a valid one",
            Some([vec![garbage], proxy_leaf.issued_by(proxy)].concat()),
            REMOTE,
            REFUSED,
        ),
        // With a certificate of the clients' authority.
        ("client", Some(leaf("jane").issued_by(client)), &[], "jane [system:authenticated]"),
        (
            "client with forged headers",
            Some(leaf("jane").issued_by(client)),
            REMOTE,
            "jane [system:authenticated]",
        ),
        (
            "client with the name of the front proxy",
            Some(proxy_leaf.issued_by(client)),
            REMOTE,
            "front-proxy-client [system:authenticated]",
        ),
        (
            "client in a group",
            Some(Leaf { organizations: masters, ..leaf("jane") }.issued_by(client)),
            &[],
            "jane [system:masters,system:authenticated]",
        ),
        ("client without a name", Some(leaf("").issued_by(client)), &[], REFUSED),
        (
            "client without a name in a group",
            Some(Leaf { organizations: masters, ..leaf("") }.issued_by(client)),
            &[],
            REFUSED,
        ),
        (
            "expired client",
            Some(Leaf { years: (2019, 2020), ..leaf("jane") }.issued_by(client)),
            &[],
            REFUSED,
        ),
        (
            "serving certificate",
            Some(Leaf { usages: server_usage, ..leaf("jane") }.issued_by(client)),
            &[],
            REFUSED,
        ),
        ("client of an unknown authority", Some(leaf("jane").issued_by(unknown)), &[], REFUSED),
        (
            "masters of an unknown authority",
            Some(Leaf { organizations: masters, ..leaf("jane") }.issued_by(unknown)),
            REMOTE,
            REFUSED,
        ),
        (
            "masters of the front proxy's authority",
            Some(Leaf { organizations: masters, ..leaf("jane") }.issued_by(proxy)),
            &[],
            REFUSED,
        ),
        // With a certificate and a token.
        ("unknown certificate and token", Some(leaf("jane").issued_by(unknown)), BEARER, WEB),
        (
            "unknown certificate and invalid token",
            Some(leaf("jane").issued_by(unknown)),
            invalid_bearer,
            REFUSED,
        ),
        (
            "client and invalid token",
            Some(leaf("jane").issued_by(client)),
            invalid_bearer,
            "jane [system:authenticated]",
        ),
    ];
    for (name, chain, pairs, expected) in rows {
        let found = outcome(cluster.trust(|_| ()), chain, pairs).await;
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn no_certificate_is_trusted_without_cas() {
    let cluster = ClusterCas::new();
    let proxy = || Some(leaf("front-proxy-client").issued_by(&cluster.front_proxy));
    let client = || Some(leaf("jane").issued_by(&cluster.clients));
    let without = |key: &'static str| {
        cluster.trust(move |data| {
            data.remove(key);
        })
    };
    let no_proxy = without("requestheader-client-ca-file");
    assert_eq!(outcome(no_proxy, proxy(), REMOTE).await, REFUSED);
    let no_clients = without("client-ca-file");
    assert_eq!(outcome(no_clients.clone(), client(), &[]).await, REFUSED);
    assert_eq!(outcome(no_clients, proxy(), REMOTE).await, ADMIN);
    // Without any CA, certificates are ignored.
    assert_eq!(outcome(Trust::default(), proxy(), REMOTE).await, ANONYMOUS);
    let no_names = without("requestheader-username-headers");
    assert_eq!(outcome(no_names, proxy(), REMOTE).await, REFUSED);
    let any_name = without("requestheader-allowed-names");
    let other = Some(leaf("kubelet").issued_by(&cluster.front_proxy));
    assert_eq!(outcome(any_name, other, REMOTE).await, ADMIN, "an empty list allows all names");
}

#[tokio::test]
async fn front_proxy_headers_set_name_uid_groups_and_extra() {
    let cluster = ClusterCas::new();
    let trust = cluster.trust(|_| ());
    let authenticator = Authenticator::new(trust, None);
    let peer = peer(leaf("front-proxy-client").issued_by(&cluster.front_proxy));
    let headers = headers(&[
        ("X-Remote-User", "jane"),
        ("X-Remote-User", "eve"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", ""),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Acme%2FProject", "x"),
        ("X-Remote-Extra-acme%2fproject", "y"),
    ]);
    let AuthenticatedUser { user, .. } = authenticator.authenticate(&peer, &headers).await.unwrap();
    assert_eq!((&*user.name, &*user.uid), ("jane", "7"));
    assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
    let extra: BTreeMap<_, _> =
        [("acme/project".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into();
    assert_eq!(user.extra, extra);
}

#[tokio::test]
async fn changed_cas_apply_to_open_connections() {
    let cluster = ClusterCas::new();
    let authenticator = Authenticator::new(cluster.trust(|_| ()), None);
    let peer = peer(leaf("front-proxy-client").issued_by(&cluster.front_proxy));
    let headers = headers(REMOTE);
    assert!(authenticator.authenticate(&peer, &headers).await.is_ok());
    let unknown = cluster.unknown.pem();
    authenticator.set_trust(cluster.trust(|data| {
        data.insert("requestheader-client-ca-file".to_owned(), unknown);
    }));
    assert!(authenticator.authenticate(&peer, &headers).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn token_reviews_are_cached_until_they_expire() {
    let reviews = Arc::<TestReviews>::default();
    let lifetime = Duration::from_secs(10);
    let tokens = TokenAuthenticator::new(reviews.clone(), lifetime);
    let authenticator = Authenticator::new(Trust::default(), Some(tokens));
    for token in ["valid", "invalid", "unreviewed", "valid", "invalid", "unreviewed"] {
        let headers = headers(&[("Authorization", &format!("Bearer {token}"))]);
        authenticator.authenticate(&peer(Vec::new()), &headers).await.ok();
    }
    // A failed review isn't cached.
    assert_eq!(*reviews.reviewed.lock(), ["valid", "invalid", "unreviewed", "unreviewed"]);
    tokio::time::advance(lifetime).await;
    authenticator.authenticate(&peer(Vec::new()), &headers(BEARER)).await.unwrap();
    assert_eq!(reviews.reviewed.lock().len(), 5);
}

#[test]
fn invalid_config_map_is_refused() {
    let data = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let error = |key, value| Trust::from_cluster(&data(key, value)).unwrap_err().to_string();
    assert_eq!(error("client-ca-file", "x"), "client-ca-file is invalid");
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        error("requestheader-client-ca-file", pem),
        "requestheader-client-ca-file is invalid"
    );
    let mut list = data("requestheader-client-ca-file", &authority("x").pem());
    list.extend(data("requestheader-allowed-names", "x"));
    let error = Trust::from_cluster(&list).unwrap_err().to_string();
    assert_eq!(error, "requestheader-allowed-names is not a JSON list of strings");
}

#[tokio::test(start_paused = true)]
async fn invalid_tokens_do_not_evict_cached_valid_ones() {
    let reviews = Arc::<TestReviews>::default();
    let tokens = TokenAuthenticator::new(reviews.clone(), Duration::from_hours(1));
    let authenticator = Authenticator::new(Trust::default(), Some(tokens));
    let authenticate = async |token: &str| {
        let headers = headers(&[("Authorization", &format!("Bearer {token}"))]);
        authenticator.authenticate(&peer(Vec::new()), &headers).await
    };
    authenticate("valid").await.unwrap();
    for token in 0..600 {
        authenticate(&token.to_string()).await.unwrap_err();
        tokio::time::advance(Duration::from_millis(200)).await;
    }
    assert_eq!(reviews.reviewed.lock().len(), 601, "five a second are reviewed");
    authenticate("valid").await.unwrap();
    authenticate("599").await.unwrap_err();
    assert_eq!(reviews.reviewed.lock().len(), 601, "both are cached");
}

/// A connection may outlive its certificate, so the first request after 30 s verifies it again.
#[tokio::test(start_paused = true)]
async fn certificate_that_expires_ends_the_access_of_its_connection() {
    let cluster = ClusterCas::new();
    let trust = Arc::new(cluster.trust(|_| ()));
    let chain = Leaf { years: (2020, 2030), ..leaf("jane") }.issued_by(&cluster.clients);
    let ca_bundle = trust.client_ca_bundle.as_ref().unwrap();
    let verify = |year: u64| {
        let since_epoch = Duration::from_hours((year - 1970) * 8766);
        ca_bundle.verify(&chain, UnixTime::since_unix_epoch(since_epoch))
    };
    assert!(verify(2025).is_ok());
    assert!(verify(2031).is_err(), "expired");
    assert!(verify(2019).is_err(), "not valid yet");
    let peer = peer(chain.clone());
    let verification = peer.verify(&trust).unwrap();
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(Arc::ptr_eq(&verification, &peer.verify(&trust).unwrap()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!Arc::ptr_eq(&verification, &peer.verify(&trust).unwrap()));
}

/// Issued by `openssl x509 -req` without extensions.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBMjCB2QIUZR4JBO1GaDw69jzs0KPpy1wq170wCgYIKoZIzj0EAwIwGTEXMBUG
A1UEAwwOZnJvbnQtcHJveHktY2EwIBcNMjYxMTIyMTU1OTU4WhgPMjEyNjEwMjkx
NTU5NThaMB0xGzAZBgNVBAMMEmZyb250LXByb3h5LWNsaWVudDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABPUbolQuDI5qKyR78Fge0lkCPGawVpmmIjV5GTHQFkcm
KSBGkMnSOh5LCBGRU2YX6OUmdWahYle9EGCzn9yjboQwCgYIKoZIzj0EAwIDSAAw
RQIgENt3LcVcGcxEdqTSwXugDeZW+Xb/gV6YAzvZKvdZoFMCIQD2ocGuctuP5XVe
w56Ug/oojC8+b/8v6G/HT7Jvb0VExw==
-----END CERTIFICATE-----
";

#[test]
fn version_1_certificate_fails_the_handshake_with_a_reason() {
    let verifier = ClientKeyVerifier::new();
    let verify = |certificate: &CertificateDer<'_>| {
        verifier.verify_client_cert(certificate, &[], UnixTime::now())
    };
    let version_1 = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
    let error = verify(&version_1).unwrap_err().to_string();
    let expected = "the client's certificate has X.509 version 1, which is not supported";
    assert!(error.contains(expected), "{error}");
    let version_3 = leaf("front-proxy-client").issued_by(&authority("front-proxy-ca"));
    assert!(verify(&version_3[0]).is_ok());
    assert!(verify(&CertificateDer::from(b"no certificate".to_vec())).is_ok(), "refused later");
}
