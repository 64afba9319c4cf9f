//! Whose certificates are trusted.

use std::collections::BTreeMap;

use super::{
    authority::{Authority, AuthorityError},
    front_proxy::FrontProxy,
};

/// The certificates and names that are trusted.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The front proxies. `None`: there is none.
    pub front_proxy: Option<FrontProxy>,
    /// The authority of clients' certificates. `None`: such certificates don't count.
    pub client_authority: Option<Authority>,
}

/// Why the ConfigMap with the cluster's authorities can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A bundle.
    #[error("{key} is invalid")]
    Authority {
        /// The key in the ConfigMap.
        key: &'static str,
        /// What is wrong.
        source: AuthorityError,
    },
    /// A list of names.
    #[error("{key} is not a JSON list of texts")]
    List {
        /// The key in the ConfigMap.
        key: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
}

const CLIENT_CA: &str = "client-ca-file";
const FRONT_PROXY_CA: &str = "requestheader-client-ca-file";

impl Trust {
    /// Reads the data of the ConfigMap `kube-system/extension-apiserver-authentication`.
    pub fn from_cluster(data: &BTreeMap<String, String>) -> Result<Self, TrustError> {
        let bundle = |key: &'static str| {
            let text = data.get(key).filter(|text| !text.trim().is_empty());
            let authority = text.map(|text| Authority::from_pem(text.as_bytes())).transpose();
            authority.map_err(|source| TrustError::Authority { key, source })
        };
        let list = |key: &'static str| match data.get(key).filter(|text| !text.is_empty()) {
            Some(text) => serde_json::from_str::<Vec<String>>(text)
                .map_err(|source| TrustError::List { key, source }),
            None => Ok(Vec::new()),
        };
        let front_proxy = match bundle(FRONT_PROXY_CA)? {
            Some(authority) => Some(FrontProxy {
                authority,
                allowed_names: list("requestheader-allowed-names")?,
                username_headers: list("requestheader-username-headers")?,
                uid_headers: list("requestheader-uid-headers")?,
                group_headers: list("requestheader-group-headers")?,
                extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
            }),
            None => None,
        };
        Ok(Self { front_proxy, client_authority: bundle(CLIENT_CA)? })
    }
}
