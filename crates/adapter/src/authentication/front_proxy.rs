//! Users whose credentials the front proxy, kube-apiserver, has checked. It passes them on in
//! headers.

use std::{borrow::Cow, collections::BTreeMap};

use crate::reviews::User;
use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::authority::Authority;

/// Which front proxies are trusted, and which headers they set.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// The authority of the proxies' certificates.
    pub authority: Authority,
    /// The common names that a proxy may have. Empty: any.
    pub allowed_names: Vec<String>,
    /// Headers with the name of the user. The first one that is not empty counts.
    pub username_headers: Vec<String>,
    /// Headers with the UID of the user. The first one that is not empty counts.
    pub uid_headers: Vec<String>,
    /// Headers with a group each.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further information.
    pub extra_header_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Whether a proxy may have this common name.
    pub(super) fn allows(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|own| own == common_name)
    }

    /// The user in the headers. `None` if there is no name.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first_value(headers, &self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|header| values(headers, header));
        Some(User {
            name,
            uid: first_value(headers, &self.uid_headers).unwrap_or_default(),
            groups: groups.filter(|group| !group.is_empty()).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_header_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for name in headers.keys() {
                let Some(key) = name.as_str().strip_prefix(&prefix) else { continue };
                let decoded = percent_decode_str(key).decode_utf8();
                let key = decoded.map_or_else(|_| key.to_owned(), Cow::into_owned);
                extra.entry(key).or_default().extend(values(headers, name.as_str()));
            }
        }
        extra
    }
}

/// The first value of a header, of the first header that is not empty.
fn first_value(headers: &HeaderMap, names: &[String]) -> Option<String> {
    let first = |name: &String| values(headers, name).next().filter(|value| !value.is_empty());
    names.iter().find_map(first)
}

/// The values of a header. Bytes that are not UTF-8 are replaced, so that the value can't be equal
/// to another one by accident.
fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = String> + use<'h> {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
