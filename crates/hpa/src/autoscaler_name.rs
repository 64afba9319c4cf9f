//! The autoscaler that a command names, as `NAME` or `NAMESPACE/NAME`.

use anyhow::{anyhow, bail};
use hpa_calc::{HorizontalPodAutoscaler, suggestions::is_similar};
use kube::Client;
use serde_json::Value;

use crate::{
    args::TargetApi,
    kubectl::{NoResponse, escape, get, list, missing_namespace},
    manifests::string_at,
    status::shorten_names,
};

/// The maximum number of autoscalers of a namespace, or of namespaces, that an error names. Of
/// similar names, it names the first ones.
const MAX_NAMES: usize = 5;

/// The names of the resource, as kubectl accepts them. A group or a version may follow.
const RESOURCE_NAMES: [&str; 2] = ["horizontalpodautoscaler", hpa_crd::PLURAL];
/// The short name of the resource, which a namespace may have as well.
const SHORT_RESOURCE_NAME: &str = "hpa";

/// An autoscaler of a cluster.
#[derive(Debug)]
pub(crate) struct AutoscalerName {
    pub(crate) api: TargetApi,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl AutoscalerName {
    /// Parses `NAME` or `NAMESPACE/NAME`. If the argument has no namespace, it is that of the flag
    /// `--namespace`, else the default. As with kubectl, a resource may precede the name:
    /// `horizontalpodautoscaler/NAME`. With the flag, also `hpa/NAME`, which otherwise is an
    /// autoscaler of the namespace `hpa`.
    pub(crate) fn new(
        api: TargetApi,
        argument: &str,
        flag_namespace: Option<&str>,
        default_namespace: &str,
    ) -> anyhow::Result<Self> {
        // Conditions and logs name autoscalers of the custom API `rhpa/NAMESPACE/NAME`.
        let without_prefix = argument.strip_prefix(hpa_crd::SHORT_NAME);
        let without_prefix = without_prefix.and_then(|rest| rest.strip_prefix('/'));
        let without_prefix = without_prefix.filter(|rest| rest.contains('/'));
        let api = if without_prefix.is_some() { TargetApi::Custom } else { api };
        let argument = without_prefix.unwrap_or(argument);
        let argument = without_resource(argument, flag_namespace.is_some());
        let (namespace, name) = match (argument.split_once('/'), flag_namespace) {
            (Some((namespace, _)), Some(flag)) if namespace != flag => {
                bail!("{argument} is not in the namespace {flag} that --namespace names")
            }
            (Some(namespace_and_name), _) => namespace_and_name,
            (None, flag) => (flag.unwrap_or(default_namespace), argument),
        };
        Ok(Self { api, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Returns the same name in the custom API, if the autoscaler can be read only there. Otherwise
    /// returns the name unchanged.
    pub(crate) async fn in_any_api(self, client: &Client) -> Self {
        let exists_in = async |api| get::<Value>(client, &self.path_in(api)).await.is_ok();
        if exists_in(TargetApi::Core).await || !exists_in(TargetApi::Custom).await {
            return self;
        }
        Self { api: TargetApi::Custom, ..self }
    }

    /// Reads the autoscaler. If it doesn't exist, the error names its other API, or other
    /// autoscalers if they can be listed.
    pub(crate) async fn read(&self, client: &Client) -> anyhow::Result<Value> {
        let error = match get::<Value>(client, &self.path_in(self.api)).await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let full_name = format!("{}/{}", self.namespace, self.name);
        if error.is::<NoResponse>() {
            return Err(error.context(format!("unable to read the autoscaler {full_name}")));
        }
        let (other_api, flag) = match self.api {
            TargetApi::Core => (TargetApi::Custom, "custom"),
            TargetApi::Custom => (TargetApi::Core, "core"),
        };
        if get::<Value>(client, &self.path_in(other_api)).await.is_ok() {
            bail!(
                "{full_name} is an autoscaler of {}, not of {}: add --autoscaler-api={flag}",
                other_api.api_version(),
                self.api.api_version()
            );
        }
        if let Some(suggestions) = self.describe_others(client).await {
            bail!("there is no autoscaler {full_name}{suggestions}");
        }
        Err(error.context(format!("unable to read the autoscaler {full_name}")))
    }

    /// The path of all autoscalers of an API in the namespace.
    pub(crate) fn list_path(&self, api: TargetApi) -> String {
        let (group, namespace) = (api.api_version(), escape(&self.namespace));
        format!("/apis/{group}/namespaces/{namespace}/{}", hpa_crd::PLURAL)
    }

    fn path_in(&self, api: TargetApi) -> String {
        format!("{}/{}", self.list_path(api), escape(&self.name))
    }

    /// Describes the other autoscalers of the namespace. `None` if they can't be listed, or if this
    /// autoscaler is one of them.
    async fn describe_others(&self, client: &Client) -> Option<String> {
        let page: Value = get(client, &self.list_path(self.api)).await.ok()?;
        let items = page.get("items")?.as_array()?;
        let names: Vec<_> = items.iter().map(|item| string_at(item, "/metadata/name")).collect();
        if names.contains(&self.name.as_str()) {
            return None;
        }
        let namespace = &self.namespace;
        let similar = names.iter().filter(|name| is_similar(name, &self.name));
        let similar: Vec<String> = similar.map(|name| (*name).to_owned()).collect();
        Some(match (names.as_slice(), similar.as_slice()) {
            ([], _) => {
                if let Some(missing) = missing_namespace(client, namespace).await {
                    format!(": {missing}")
                } else {
                    let namesakes = self.describe_namesakes(client).await;
                    format!(": the namespace {namespace} has none{namesakes}")
                }
            }
            (_, [_, ..]) => format!(". Similar: {}", shorten_names(&similar)),
            (names, []) if names.len() <= MAX_NAMES => {
                format!(". The namespace {namespace} has {}", names.join(", "))
            }
            (names, []) => format!(". The namespace {namespace} has {} others", names.len()),
        })
    }

    /// Names other namespaces that have an autoscaler of this name. Empty if there are none, or if
    /// the autoscalers of all namespaces can't be listed.
    async fn describe_namesakes(&self, client: &Client) -> String {
        let path = format!("/apis/{}/{}", self.api.api_version(), hpa_crd::PLURAL);
        let all = list(client, &path).await.unwrap_or_default();
        let namesakes = all.iter().filter(|item| string_at(item, "/metadata/name") == self.name);
        let namespaces: Vec<_> =
            namesakes.map(|item| string_at(item, "/metadata/namespace")).collect();
        let name = &self.name;
        match namespaces.as_slice() {
            [] => String::new(),
            names if names.len() <= MAX_NAMES => format!(". {name} is in {}", names.join(", ")),
            names => format!(". {name} is in {} other namespaces", names.len()),
        }
    }
}

/// Removes the resource from `RESOURCE/NAME`. The short name counts only if the namespace is known.
fn without_resource(argument: &str, has_namespace: bool) -> &str {
    let Some((resource, name)) = argument.split_once('/') else { return argument };
    let resource = resource.split_once('.').map_or(resource, |(resource, _)| resource);
    let is_resource = RESOURCE_NAMES.iter().any(|known| resource.eq_ignore_ascii_case(known))
        || has_namespace && resource == SHORT_RESOURCE_NAME;
    if is_resource { name } else { argument }
}

/// Finds an autoscaler among objects from files. `name` is `NAME` or `NAMESPACE/NAME`. Without it,
/// the files must have exactly one autoscaler.
pub(crate) fn find_in_files<'a>(
    objects: impl Iterator<Item = &'a Value>,
    name: Option<&str>,
) -> anyhow::Result<&'a Value> {
    let (namespace, name) = match name.map(|name| name.split_once('/').unwrap_or(("", name))) {
        Some((namespace, name)) => (namespace, Some(name)),
        None => ("", None),
    };
    let matching: Vec<&Value> = objects
        .filter(|object| string_at(object, "/kind") == hpa_crd::KIND)
        .filter(|object| name.is_none_or(|name| string_at(object, "/metadata/name") == name))
        .filter(|object| is_in_namespace(object, namespace))
        .collect();
    match matching.as_slice() {
        [only] => Ok(only),
        [] => bail!("the files have no such HorizontalPodAutoscaler"),
        several => {
            let names: Vec<_> = several.iter().map(|object| describe(object)).collect();
            bail!("the files have several autoscalers, name one: {}", names.join(", "))
        }
    }
}

/// Decodes an autoscaler of `autoscaling/v2` or of the custom API. The error names the autoscaler
/// and the field, as in `hpa lint`.
pub(crate) fn decode(object: &Value) -> anyhow::Result<HorizontalPodAutoscaler> {
    serde_json::from_value(object.clone()).map_err(|error| {
        let errors = hpa_crd::type_errors(object).unwrap_or_default();
        let cause = errors.first().map_or_else(|| error.to_string(), ToString::to_string);
        anyhow!("unable to decode {}: {cause}", describe(object))
    })
}

/// Whether an object is in a namespace. Manifests may leave the namespace out.
pub(crate) fn is_in_namespace(object: &Value, namespace: &str) -> bool {
    let object_namespace = string_at(object, "/metadata/namespace");
    object_namespace.is_empty() || namespace.is_empty() || object_namespace == namespace
}

/// Formats kind, namespace and name, as in `Deployment shop/web`.
pub(crate) fn describe(object: &Value) -> String {
    let (namespace, name) =
        (string_at(object, "/metadata/namespace"), string_at(object, "/metadata/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name}", string_at(object, "/kind"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::name("web", None, "default", "web")]
    #[case::namespace("shop/web", None, "shop", "web")]
    #[case::resource("horizontalpodautoscaler/web", Some("shop"), "shop", "web")]
    #[case::plural("horizontalpodautoscalers.v2.autoscaling/web", None, "default", "web")]
    #[case::short("hpa/web", Some("shop"), "shop", "web")]
    #[case::namespace_like_the_short_name("hpa/web", None, "hpa", "web")]
    #[case::resource_and_namespace("horizontalpodautoscaler/shop/web", None, "shop", "web")]
    fn resource_may_precede_the_name(
        #[case] argument: &str,
        #[case] flag: Option<&str>,
        #[case] namespace: &str,
        #[case] name: &str,
    ) {
        let parsed =
            AutoscalerName::new(TargetApi::Core, argument, flag, "default").expect("a name");
        assert_eq!((&*parsed.namespace, &*parsed.name), (namespace, name));
    }

    #[test]
    fn namespace_must_be_that_of_the_flag() {
        let error = AutoscalerName::new(TargetApi::Core, "a/web", Some("shop"), "default");
        let error = error.expect_err("another namespace").to_string();
        assert_eq!(error, "a/web is not in the namespace shop that --namespace names");
    }
}
