//! Minimal `OpenAPI` documents. The API server fetches them and repeats the request, or logs an
//! error, if they are missing. Metrics have no schemas that clients need.

use serde_json::{Value, json};

/// The document of `/openapi/v2`.
pub fn v2(version: &str) -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes metrics APIs", "version": version },
        "paths": {},
    })
}

/// The document of `/openapi/v3`.
pub fn v3() -> Value {
    json!({ "paths": {} })
}
