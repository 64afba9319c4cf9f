//! Parses the subject and the version of a certificate. rustls parses and verifies the rest.

/// The parts of a subject that name a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The last common name. May be empty.
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The tag of the version of a certificate, which is optional.
const VERSION_TAG: u8 = 0xa0;
/// String types that are UTF-8 or a subset: `UTF8String`, `NumericString`, `PrintableString`,
/// `IA5String`.
const TEXT_TAGS: [u8; 4] = [0x0c, 0x12, 0x13, 0x16];
/// The identifiers of `id-at-commonName` and `id-at-organizationName`.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// Whether a certificate in DER has version 1, which has no version field. `None` if malformed.
pub(crate) fn has_version_1(der: &[u8]) -> Option<bool> {
    Some(element(tbs_certificate(der)?, VERSION_TAG).is_none())
}

/// The signed part of a certificate in DER.
fn tbs_certificate(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(der, SEQUENCE)?;
    Some(element(certificate, SEQUENCE)?.0)
}

impl Subject {
    /// Reads the subject of a certificate in DER. `None` if the certificate is malformed, or if
    /// a name isn't in UTF-8 or contains NUL.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        let fields = tbs_certificate(der)?;
        let fields = element(fields, VERSION_TAG).map_or(fields, |(_, rest)| rest);
        // Serial number, algorithm, issuer and validity.
        let (_, _, rest) = split_element(fields)?;
        let (_, rest) = element(rest, SEQUENCE)?;
        let (_, rest) = element(rest, SEQUENCE)?;
        let (_, rest) = element(rest, SEQUENCE)?;
        let (mut names, _) = element(rest, SEQUENCE)?;
        let mut subject = Self::default();
        while !names.is_empty() {
            let (mut attributes, rest) = element(names, SET)?;
            names = rest;
            while !attributes.is_empty() {
                let (attribute, rest) = element(attributes, SEQUENCE)?;
                attributes = rest;
                subject.add(attribute)?;
            }
        }
        Some(subject)
    }

    fn add(&mut self, attribute: &[u8]) -> Option<()> {
        let (identifier, value) = element(attribute, OBJECT_IDENTIFIER)?;
        if identifier == COMMON_NAME {
            self.common_name = utf8_text(value)?;
        } else if identifier == ORGANIZATION {
            self.organizations.push(utf8_text(value)?);
        }
        Some(())
    }
}

fn utf8_text(value: &[u8]) -> Option<String> {
    let (tag, content, _) = split_element(value)?;
    let is_text = TEXT_TAGS.contains(&tag);
    let text = std::str::from_utf8(content).ok().filter(|text| is_text && !text.contains('\0'))?;
    Some(text.to_owned())
}

/// The content of an element with a tag, and the rest.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = split_element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The tag and content of the first element, and the rest.
fn split_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (length, bytes) = if first < 0x80 {
        (usize::from(first), bytes)
    } else {
        let (length, bytes) = bytes.split_at_checked(usize::from(first & 0x7f))?;
        // Refuses indefinite lengths and elements of 16 MiB or more.
        if length.is_empty() || length.len() > 3 {
            return None;
        }
        (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), bytes)
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn subject_has_common_name_and_organization() {
        let names = [
            (DnType::CountryName, "AQ"),
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "jane"),
        ];
        let subject = Subject::of_certificate(&certificate(&names)).unwrap();
        assert_eq!(subject.common_name, "jane");
        assert_eq!(subject.organizations, ["system:masters"]);
        let empty = Subject::of_certificate(&certificate(&[])).unwrap();
        assert_eq!(empty, Subject::default());
    }

    #[test]
    fn malformed_certificates_have_no_subject() {
        let valid = certificate(&[(DnType::CommonName, "jane")]);
        let subject = Subject::of_certificate(&valid);
        for length in 0..valid.len() {
            assert_eq!(Subject::of_certificate(&valid[..length]), None, "{length}");
        }
        for index in 0..40.min(valid.len()) {
            let mut changed = valid.clone();
            changed[index] ^= 0xff;
            // Must not panic or return another name.
            let found = Subject::of_certificate(&changed);
            assert!(found.is_none() || found == subject, "{index}");
        }
    }
}
