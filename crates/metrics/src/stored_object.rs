//! Objects of the API server that no tenant can make undecodable.

use std::{borrow::Cow, collections::BTreeMap};

use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{ApiResource, DynamicResourceScope, ObjectList, ObjectMeta, Request},
};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value, value::RawValue};

/// The value that [`StoredObject::to_value`] leaves out. `[]` stands for all items of a list.
const FIELDS_V1: [&str; 4] = ["metadata", "managedFields", "[]", "fieldsV1"];

/// An object as it is stored. Only its identity is decoded; the rest is text until
/// [`StoredObject::decode`].
///
/// The types of kube and `k8s_openapi` parse all times of `metadata`. Their latest time is before
/// the end of year 9999, but the API server accepts later ones in `managedFields`. One such object
/// makes the list that contains it undecodable, with the objects of all other tenants. Decoding as
/// this type succeeds for every object that the API server stores. The text also takes less than a
/// tenth of the memory of a tree of JSON values.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// Name, namespace, UID and resource version.
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl StoredObject {
    /// The API of a resource. An empty namespace stands for all namespaces, and for objects without
    /// one.
    #[must_use]
    pub fn api(client: Client, namespace: &str, resource: &ApiResource) -> Api<Self> {
        if namespace.is_empty() {
            Api::all_with(client, resource)
        } else {
            Api::namespaced_with(client, namespace, resource)
        }
    }

    /// Decodes the fields of the object that `T` has. If `T` parses times, the error concerns only
    /// this object.
    ///
    /// # Errors
    ///
    /// Fails if a field of `T` is missing or has another type.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(self.text.get())
    }

    /// Decodes all fields except `fieldsV1` in `managedFields`. Every user who may create the
    /// object chooses the value of `fieldsV1`, and can nest it more deeply than `serde_json`
    /// decodes.
    ///
    /// # Errors
    ///
    /// Fails if another field is nested too deeply. The error concerns only this object.
    pub fn to_value(&self) -> serde_json::Result<Value> {
        value_without(&self.text, &FIELDS_V1)
    }
}

/// Decodes a JSON text, but not the value at `path`.
fn value_without(text: &RawValue, path: &[&str]) -> serde_json::Result<Value> {
    let text = text.get();
    match path {
        ["[]", rest @ ..] if text.starts_with('[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            items.into_iter().map(|item| value_without(item, rest)).collect()
        }
        [name, rest @ ..] if text.starts_with('{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let mut object = Map::new();
            for (key, member) in members {
                let value = match (key == *name, rest) {
                    (true, []) => continue,
                    (true, rest) => value_without(member, rest)?,
                    (false, _) => serde_json::from_str(member.get())?,
                };
                object.insert(key, value);
            }
            Ok(Value::Object(object))
        }
        _ => serde_json::from_str(text),
    }
}

impl<'de> Deserialize<'de> for StoredObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let HeadMetadata { name, namespace, uid, resource_version } = metadata;
        let metadata =
            ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, text })
    }
}

impl Resource for StoredObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Lists the metadata of objects: one page, as `parameters` ask for. `None` stands for all
/// namespaces.
///
/// # Errors
///
/// Fails if the request fails, or if the response isn't a list.
pub async fn list_metadata(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    parameters: &ListParams,
) -> kube::Result<ObjectList<StoredObject>> {
    let path = StoredObject::url_path(resource, namespace);
    let request =
        Request::new(path).list_metadata(parameters).map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Response, header::ACCEPT};
    use kube::{ResourceExt, client::Body, core::WatchEvent};
    use serde::de::IgnoredAny;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Parts {
        spec: Vec<u8>,
        status: Option<IgnoredAny>,
    }

    /// `metadata` of an object whose times are outside the range of a `Timestamp`.
    const METADATA: &str = r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",
        "labels":null,"creationTimestamp":"9999-12-31T23:59:59Z",
        "managedFields":[{"fieldsV1":{"f:spec":{}},"time":"9999-12-31T23:59:59Z"}]}"#;

    fn identity(object: &StoredObject) -> [String; 4] {
        let version = object.resource_version().unwrap_or_default();
        let (namespace, uid) = (object.namespace(), object.uid());
        [object.name_any(), namespace.unwrap_or_default(), uid.unwrap_or_default(), version]
    }

    #[test]
    fn object_with_times_out_of_range_is_decoded_in_an_event() {
        let event =
            format!(r#"{{"type":"ADDED","object":{{"metadata":{METADATA},"spec":[1, 2]}}}}"#);
        let WatchEvent::Added(object) = serde_json::from_str(&event).unwrap() else {
            panic!("not an added object")
        };
        assert_eq!(identity(&object), ["a", "n", "u", "7"]);
        assert!(object.managed_fields().is_empty());
        let Parts { spec, status } = object.decode().unwrap();
        assert_eq!((spec, status.is_none()), (vec![1, 2], true));
    }

    #[test]
    fn object_with_times_out_of_range_does_not_fail_its_list() {
        let list = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"continue":"c"}},
                "items":[{{"metadata":{METADATA}}},{{"metadata":{{"name":"b"}}}},{{}}]}}"#
        );
        let list: ObjectList<StoredObject> = serde_json::from_str(&list).unwrap();
        assert_eq!(list.metadata.continue_.as_deref(), Some("c"));
        let names: Vec<_> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b", ""]);
    }

    #[test]
    fn undecodable_field_fails_only_when_it_is_decoded() {
        let object: StoredObject = serde_json::from_str(r#"{"spec":"x"}"#).unwrap();
        assert_eq!(identity(&object), [""; 4]);
        object.decode::<Parts>().unwrap_err();
    }

    #[test]
    fn deep_managed_fields_do_not_make_an_object_or_its_list_undecodable() {
        let deep = format!("{}1{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
        let entry = format!(r#"{{"manager":"k","fieldsV1":{deep}}}"#);
        let metadata = format!(r#"{{"name":"a","managedFields":[{entry}],"labels":null}}"#);
        let list = format!(
            r#"{{"metadata":{{}},"items":[{{"metadata":{metadata},"fieldsV1":[0.5]}},
                {{"metadata":{{"name":"b"}},"spec":{deep}}}]}}"#
        );
        let list: ObjectList<StoredObject> = serde_json::from_str(&list).unwrap();
        list.items[0].decode::<Value>().unwrap_err();
        let expected = json!({
            "metadata": { "name": "a", "managedFields": [{ "manager": "k" }], "labels": null },
            "fieldsV1": [0.5],
        });
        assert_eq!(list.items[0].to_value().unwrap(), expected);
        list.items[1].to_value().unwrap_err();
    }

    #[test]
    fn object_without_managed_fields_is_decoded_as_it_is() {
        for text in [r#"{"metadata":null,"a":[null]}"#, r#"{"metadata":{"managedFields":null}}"#] {
            let text = RawValue::from_string(text.to_owned()).unwrap();
            let value = value_without(&text, &FIELDS_V1).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(text.get()).unwrap());
        }
    }

    #[tokio::test]
    async fn metadata_of_objects_with_times_out_of_range_is_listed() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/shop/pods");
            let accept = request.headers()[ACCEPT].to_str().unwrap();
            assert!(accept.contains("as=PartialObjectMetadataList"), "{accept}");
            let list = format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",
                    "metadata":{{}},
                    "items":[{{"metadata":{METADATA}}},{{"metadata":{{"name":"b"}}}}]}}"#
            );
            Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes())))
        });
        let client = Client::new(service, "default");
        let pods = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
        };
        let list = list_metadata(&client, &pods, Some("shop"), &ListParams::default()).await;
        let names: Vec<_> = list.unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
