//! Bodies of responses.

use serde::Serialize;

use crate::metrics_api::accept::{JSON, MediaType, YAML};

/// A body can't be encoded, which no input causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// As JSON.
    #[error("unable to encode the response as JSON")]
    Json(#[from] serde_json::Error),
    /// As YAML.
    #[error("unable to encode the response as YAML")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

impl MediaType {
    /// The value of the header `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        if self.is_yaml { YAML } else { JSON }
    }

    /// Encodes a body.
    pub fn encode(&self, body: &impl Serialize) -> Result<Vec<u8>, EncodeError> {
        if self.is_yaml {
            // With sorted keys, as the API server has them.
            let value = serde_json::to_value(body)?;
            return Ok(serde_saphyr::to_string(&value)?.into_bytes());
        }
        if self.is_pretty {
            return Ok(serde_json::to_vec_pretty(body)?);
        }
        let mut bytes = serde_json::to_vec(body)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics_api::StatusError;

    fn encode(media_type: &MediaType) -> String {
        let error = StatusError::not_found("node", "a \"b\"");
        String::from_utf8(media_type.encode(&error).unwrap()).unwrap()
    }

    #[test]
    fn bodies_are_encoded_as_the_client_accepts_them() {
        let json = encode(&MediaType::default());
        assert!(
            json.starts_with("{\"kind\":\"Status\",\"apiVersion\":\"v1\"") && json.ends_with("}\n")
        );
        let pretty = encode(&MediaType { is_pretty: true, ..MediaType::default() });
        assert!(pretty.starts_with("{\n  \"kind\": \"Status\"") && pretty.ends_with("\n}"));
        let yaml = encode(&MediaType { is_yaml: true, ..MediaType::default() });
        assert!(yaml.starts_with("apiVersion: v1\ncode: 404\ndetails:\n  kind: node\n"), "{yaml}");
    }
}
