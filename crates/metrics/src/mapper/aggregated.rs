//! Decodes the aggregated discovery (apidiscovery.k8s.io), as client-go does: `null` is the same as
//! an absent field. Only the fields that this crate uses are decoded, because every aggregated API
//! server fills in a part of the document. For example, kube-apiserver adds `pods` with
//! `"verbs": null` if a server of custom metrics lists only `pods/METRIC`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::api_resource;
use crate::{
    DecodeError,
    decode::{decode_json, null_as_default},
    describe,
    resource::ApiResource,
};

/// An `APIGroupDiscoveryList`.
#[derive(Deserialize)]
pub(super) struct GroupList {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) items: Vec<Box<RawValue>>,
}

/// The resources of the groups that can be decoded.
#[derive(Default)]
pub(super) struct Discovery {
    /// The resources of all versions, in the order of the document.
    pub(super) resources: Vec<ApiResource>,
    /// The groups and versions that can't be decoded, each with the field.
    pub(super) problems: Vec<String>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default, deserialize_with = "null_as_default")]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
}

#[derive(Deserialize)]
struct VersionList {
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default, deserialize_with = "null_as_default")]
    version: String,
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<DiscoveredResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveredResource {
    #[serde(default, deserialize_with = "null_as_default")]
    resource: String,
    #[serde(default, deserialize_with = "null_as_default")]
    response_kind: ResponseKind,
    #[serde(default, deserialize_with = "null_as_default")]
    singular_resource: String,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default, deserialize_with = "null_as_default")]
    kind: String,
}

impl Discovery {
    /// Decodes each version of each group on its own: one that can't be decoded must not hide the
    /// resources of the others.
    pub(super) fn add_group(&mut self, group: &RawValue) {
        let name = match decode_json::<Head>(group.get()) {
            Ok(head) => head.metadata.name,
            Err(error) => return self.add_problem("a group without a readable name", &error),
        };
        let description =
            if name.is_empty() { "the core group".to_owned() } else { format!("group {name}") };
        let versions = match decode_json::<VersionList>(group.get()) {
            Ok(list) => list.versions,
            Err(error) => return self.add_problem(&description, &error),
        };
        for (position, version) in versions.iter().enumerate() {
            match decode_json(version.get()) {
                Ok(version) => self.add_version(&name, version),
                Err(error) => {
                    let error = error.in_member(&format!("versions[{position}]"));
                    self.add_problem(&description, &error);
                }
            }
        }
    }

    fn add_version(&mut self, group: &str, version: Version) {
        for DiscoveredResource { resource: plural, response_kind, singular_resource } in
            version.resources
        {
            // A resource without a kind has only subresources.
            if plural.is_empty() || response_kind.kind.is_empty() {
                continue;
            }
            let (version, kind) = (&version.version, &response_kind.kind);
            self.resources.push(api_resource(group, version, &plural, kind, singular_resource));
        }
    }

    fn add_problem(&mut self, group: &str, error: &DecodeError) {
        self.problems.push(format!("{group}: {}", describe(error)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resource::ApiResources;

    fn decode(groups: &Value) -> (ApiResources, Vec<String>) {
        let groups: Vec<Box<RawValue>> = serde_json::from_str(&groups.to_string()).unwrap();
        let mut discovery = Discovery::default();
        for group in &groups {
            discovery.add_group(group);
        }
        (ApiResources::new(discovery.resources), discovery.problems)
    }

    fn resource(plural: &str, kind: &str) -> Value {
        let kind = json!({ "group": "", "version": "", "kind": kind });
        json!({ "resource": plural, "responseKind": kind, "verbs": ["get"] })
    }

    #[test]
    fn first_version_of_a_group_counts() {
        let mut deployments = resource("deployments", "Deployment");
        deployments["singularResource"] = "deployment".into();
        let (resources, problems) = decode(&json!([{
            "metadata": { "name": "apps" },
            "versions": [
                { "version": "v1", "resources": [deployments] },
                { "version": "v1beta1", "resources": [deployments, resource("widgets", "Widget")] },
            ],
        }]));
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(resources.names().collect::<Vec<_>>(), ["deployments", "widgets"]);
        let deployments = resources.resolve("", "deployment").unwrap();
        assert_eq!((&*deployments.version, &*deployments.kind), ("v1", "Deployment"));
        let widgets = resources.resolve("apps", "widget").unwrap();
        assert_eq!((&*widgets.version, &*widgets.singular), ("v1beta1", "widget"));
    }

    #[test]
    fn null_is_an_absent_field() {
        let (resources, problems) = decode(&json!([
            { "metadata": null, "versions": [{
                "version": "v1", "resources": [{
                    "resource": "pods", "singularResource": null, "verbs": null,
                    "shortNames": null, "categories": null, "subresources": null, "scope": null,
                    "responseKind": { "group": null, "version": null, "kind": "Pod" },
                }],
            }] },
            { "metadata": { "name": "a" }, "versions": null },
            { "metadata": { "name": "b" }, "versions": [{ "version": "v1", "resources": null }] },
            { "metadata": { "name": "c" }, "versions": [{ "resources": [
                { "resource": null, "responseKind": null }] }] },
        ]));
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(resources.names().collect::<Vec<_>>(), ["pods"]);
        assert_eq!(resources.resolve("", "pod").unwrap().kind, "Pod");
    }

    #[test]
    fn undecodable_group_or_version_hides_no_other() {
        let (resources, problems) = decode(&json!([
            { "metadata": { "name": 7 }, "versions": [] },
            { "metadata": { "name": "a" }, "versions": {} },
            { "metadata": {}, "versions": "v1" },
            { "metadata": { "name": "b" }, "versions": [
                { "version": "v2", "resources": [
                    resource("bolts", "Bolt"), { "resource": ["nuts"] }] },
                { "version": "v1", "resources": [resource("nuts", "Nut")] },
            ] },
            { "metadata": { "name": "c" }, "versions": [
                { "version": "v1", "resources": [resource("cogs", "Cog")] }] },
        ]));
        assert_eq!(resources.names().collect::<Vec<_>>(), ["nuts", "cogs"]);
        let starts = [
            "a group without a readable name: metadata.name: invalid type: integer `7`",
            "group a: versions: invalid type: map",
            "the core group: versions: invalid type: string",
            "group b: versions[0].resources[1].resource: invalid type: sequence",
        ];
        assert_eq!(problems.len(), starts.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }
}
