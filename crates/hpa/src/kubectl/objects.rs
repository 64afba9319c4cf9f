//! Lists and gets objects that tenants store. `fieldsV1` in `managedFields` is left out: a tenant
//! can nest it so deeply that the response can't be decoded. Also interprets an `APIService` and
//! the discovery document of a metrics API.

use std::collections::BTreeSet;

use hpa_metrics::StoredObject;
use kube::{Client, ResourceExt, core::ListMeta};
use serde::Deserialize;
use serde_json::Value;

use super::{escape, get};
use crate::{
    manifests::{items, string_at},
    terminal::warn,
};

/// The number of objects in a page of a list, as in kubectl.
const PAGE_SIZE: usize = 500;

/// The only name in the discovery of an adapter that doesn't list its metrics, such as KEDA.
const PLACEHOLDER: &str = "externalmetrics";

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<StoredObject>>,
}

/// The objects of a list as values.
#[derive(Default)]
struct DecodedList {
    objects: Vec<Value>,
    /// The names of the objects that can't be decoded, with the reasons.
    undecodable: Vec<String>,
}

pub(crate) async fn get_object(client: &Client, path: &str) -> anyhow::Result<Value> {
    let object: StoredObject = get(client, path).await?;
    Ok(object.to_value()?)
}

pub(crate) async fn get_pod(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", escape(namespace), escape(name));
    get_object(client, &path).await
}

/// Lists all objects at a path, which can have a query, in pages. Warns of those that can't be
/// decoded: one of them must not hide the others.
pub(crate) async fn list(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    list_needed(client, path, |_| true).await
}

/// Like [`list`], but without the objects that aren't needed.
pub(crate) async fn list_needed(
    client: &Client,
    path: &str,
    is_needed: fn(&Value) -> bool,
) -> anyhow::Result<Vec<Value>> {
    let (objects, _) = list_pages(client, path, is_needed, usize::MAX).await?;
    Ok(objects)
}

/// Like [`list`], but reads no further page once it has read `max_objects`. Also returns whether
/// there are more.
pub(crate) async fn list_at_most(
    client: &Client,
    path: &str,
    max_objects: usize,
) -> anyhow::Result<(Vec<Value>, bool)> {
    list_pages(client, path, |_| true, max_objects).await
}

async fn list_pages(
    client: &Client,
    path: &str,
    is_needed: fn(&Value) -> bool,
    max_objects: usize,
) -> anyhow::Result<(Vec<Value>, bool)> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let first = format!("{path}{separator}limit={PAGE_SIZE}");
    let (mut list, mut token, mut read_count) = (DecodedList::default(), String::new(), 0);
    loop {
        let page: Page = get(client, &format!("{first}{token}")).await?;
        let items = page.items.unwrap_or_default();
        read_count += items.len();
        list.add(items, is_needed);
        // The last page has no token, or an empty one.
        match page.metadata.continue_.as_deref() {
            None | Some("") => return Ok((list.into_objects(path), false)),
            Some(_) if read_count >= max_objects => return Ok((list.into_objects(path), true)),
            Some(next) => token = format!("&continue={}", escape(next)),
        }
    }
}

/// Reads only the first page of a list. The query of `path` has its limit. Warns as [`list`] does.
pub(crate) async fn list_first_page(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let page: Page = get(client, path).await?;
    let mut list = DecodedList::default();
    list.add(page.items.unwrap_or_default(), |_| true);
    Ok(list.into_objects(path))
}

impl DecodedList {
    fn add(&mut self, objects: Vec<StoredObject>, is_needed: fn(&Value) -> bool) {
        for object in objects {
            match object.to_value() {
                Ok(value) if is_needed(&value) => self.objects.push(value),
                Ok(_) => {}
                Err(error) => {
                    let namespace = object.namespace().unwrap_or_default();
                    let slash = if namespace.is_empty() { "" } else { "/" };
                    let name = object.name_any();
                    self.undecodable.push(format!("{namespace}{slash}{name}: {error}"));
                }
            }
        }
    }

    fn into_objects(self, path: &str) -> Vec<Value> {
        if let Some(warning) = self.warning(path) {
            warn(warning);
        }
        self.objects
    }

    /// A sentence about the objects that can't be decoded. `None` if there are none.
    fn warning(&self, path: &str) -> Option<String> {
        let errors = summarize_undecodable(&self.undecodable)?;
        let path = path.split('?').next().unwrap_or_default();
        Some(format!("unable to decode an object of {path}: {errors}"))
    }
}

/// The first error about objects that can't be decoded, and the number of further ones. `None` if
/// there are no errors.
pub(crate) fn summarize_undecodable(errors: &[String]) -> Option<String> {
    let (first, others) = errors.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        others => format!("{first}; {others} more can't be decoded"),
    })
}

/// The reason why the API server can't reach the API of an `APIService`, by its condition
/// `Available`. `None` if it can.
pub(crate) fn unavailability(api_service: &Value) -> Option<&str> {
    let mut conditions = items(api_service.pointer("/status/conditions"));
    match conditions.find(|one| string_at(one, "/type") == "Available") {
        Some(available) if string_at(available, "/status") == "True" => None,
        Some(available) => Some(string_at(available, "/message")),
        None => Some("the API server has not checked it yet"),
    }
}

/// The metrics in the discovery document of a metrics API, custom metrics as RESOURCE/METRIC.
/// `None` if the adapter doesn't list them.
pub(crate) fn listed_metrics(discovery: &Value) -> Option<BTreeSet<String>> {
    let resources = items(discovery.get("resources"));
    let names: BTreeSet<_> =
        resources.map(|resource| string_at(resource, "/name").to_owned()).collect();
    (!names.contains(PLACEHOLDER)).then_some(names)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hpa_controller::k8s::{ClientLimits, Clients};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A value that is nested more deeply than `serde_json` decodes.
    fn deep() -> Value {
        (0..200).fold(json!({}), |inner, _| json!({ "f:a": inner }))
    }

    /// An object whose managed fields have a time that is out of range and deep fields.
    fn with_managed_fields(name: &str) -> Value {
        let entry = json!({ "manager": "kubectl", "time": "9999-12-31T23:59:59Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": deep() } });
        json!({ "metadata": { "namespace": "evil", "name": name, "managedFields": [entry] } })
    }

    /// A client whose API server answers the first request with `first` and a request for the next
    /// page with `second`.
    fn client(first: &Value, second: &Value) -> Client {
        let (first, second) = (first.to_string(), second.to_string());
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_next = request.uri().query().is_some_and(|query| query.contains("continue="));
            let body = if is_next { second.clone() } else { first.clone() };
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        });
        Clients::from_service(service, &ClientLimits::default()).api
    }

    #[tokio::test]
    async fn deep_managed_fields_do_not_hide_the_objects_of_others() {
        let web = json!({ "metadata": { "namespace": "shop", "name": "web" } });
        let first = json!({ "metadata": { "continue": "c" }, "items": [with_managed_fields("a")] });
        let second = json!({ "metadata": {}, "items": [with_managed_fields("b"), web] });
        let client = client(&first, &second);
        let objects = list(&client, "/apis/autoscaling/v2/hpas").await.expect("a list");
        let names: Vec<_> = objects.iter().map(|one| string_at(one, "/metadata/name")).collect();
        assert_eq!(names, ["a", "b", "web"]);
        assert_eq!(string_at(&objects[0], "/metadata/managedFields/0/manager"), "kubectl");
        assert_eq!(objects[0].pointer("/metadata/managedFields/0/fieldsV1"), None);
        let is_web = |object: &Value| string_at(object, "/metadata/name") == "web";
        assert_eq!(list_needed(&client, "/apis/x?a=b", is_web).await.expect("a list"), [web]);
        let first = list_first_page(&client, "/apis/x?limit=1").await.expect("a page");
        assert_eq!(first, objects[..1]);
        for (max_objects, read_count, has_more) in [(1, 1, true), (2, 3, false)] {
            let listed = list_at_most(&client, "/apis/x", max_objects).await.expect("a list");
            assert_eq!(listed, (objects[..read_count].to_vec(), has_more));
        }
    }

    #[tokio::test]
    async fn object_with_deep_managed_fields_is_read() {
        let object = with_managed_fields("a");
        let object = get_object(&client(&object, &object), "/a").await.expect("an object");
        assert_eq!(string_at(&object, "/metadata/name"), "a");
    }

    #[tokio::test]
    async fn list_without_items_has_no_objects() {
        let empty = json!({ "metadata": {}, "items": null });
        let objects = list(&client(&empty, &empty), "/api/v1/pods").await.expect("a list");
        assert!(objects.is_empty(), "{objects:?}");
    }

    #[test]
    fn undecodable_objects_are_named_beside_the_others() {
        let stored = |namespace: &str, spec: Value| {
            let metadata = json!({ "namespace": namespace, "name": "web" });
            let object = json!({ "metadata": metadata, "spec": spec });
            serde_json::from_value::<StoredObject>(object).expect("an object")
        };
        let mut list = DecodedList::default();
        list.add(vec![stored("evil", deep()), stored("shop", json!({}))], |_| true);
        assert_eq!(list.objects.len(), 1);
        let expected =
            "unable to decode an object of /api/v1/pods: evil/web: recursion limit exceeded";
        let warning = list.warning("/api/v1/pods?limit=1").expect("a warning");
        assert!(warning.starts_with(expected) && !warning.contains("more"), "{warning}");
        list.add(vec![stored("", deep())], |_| true);
        let warning = list.warning("/api/v1/pods").expect("a warning");
        assert!(warning.ends_with("; 1 more can't be decoded"), "{warning}");
        assert_eq!(DecodedList::default().warning("/"), None);
    }
}
