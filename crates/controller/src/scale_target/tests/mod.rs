mod mapper;
mod owners;
mod scale;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{MapperConfig, RestMapper};

/// An API server with scripted responses, which records the requests.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    responses: BTreeMap<String, (u16, String)>,
    delay: Duration,
    requests: Vec<String>,
    bodies: Vec<Value>,
}

impl Server {
    fn respond(&self, path: &str, code: u16, body: impl std::fmt::Display) -> &Self {
        self.0.lock().responses.insert(path.to_owned(), (code, body.to_string()));
        self
    }

    fn delay(&self, delay: Duration) {
        self.0.lock().delay = delay;
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().requests)
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri().path());
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let (delay, response) = {
                    let mut script = server.0.lock();
                    script.requests.push(line);
                    script.bodies.extend(serde_json::from_slice::<Value>(&body).ok());
                    (script.delay, script.responses.get(&path).cloned())
                };
                sleep(delay).await;
                let (code, body) = response.unwrap_or((404, "404 page not found".to_owned()));
                let kind = if body.starts_with('{') {
                    "application/json"
                } else {
                    "text/plain; charset=utf-8"
                };
                let builder = Response::builder().status(code).header("content-type", kind);
                Ok::<_, Infallible>(builder.body(Body::from(body.into_bytes())).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn mapper(&self) -> RestMapper {
        RestMapper::new(self.client(), MapperConfig::default())
    }

    fn serve_group(&self, group: &str, preferred: &str, versions: &[(&str, Value)]) {
        let listed: Vec<Value> =
            versions.iter().map(|(version, _)| json!({"version": version})).collect();
        let body = json!({
            "kind": "APIGroup",
            "versions": listed,
            "preferredVersion": {"version": preferred},
        });
        self.respond(&format!("/apis/{group}"), 200, body);
        for (version, resources) in versions {
            let list = json!({"kind": "APIResourceList", "resources": resources});
            self.respond(&format!("/apis/{group}/{version}"), 200, list);
        }
    }
}
