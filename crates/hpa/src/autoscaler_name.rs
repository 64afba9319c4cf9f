//! The autoscaler that a command names, as `NAME` or `NAMESPACE/NAME`.

use anyhow::{anyhow, bail};
use hpa_calc::{HorizontalPodAutoscaler, explain::list_first, suggestions::is_similar};
use hpa_controller::{AutoscalerApi, HpaKey};
use hpa_metrics::decode_value;
use kube::Client;
use serde_json::Value;

use crate::{
    kubectl::{
        NoResponse, escape, get_if_served, get_object, is_not_found, list, missing_namespace,
    },
    manifests::string_at,
    terminal::shorten_names,
};

/// The maximum number of autoscalers of a namespace, or of namespaces, that an error names. If
/// there are more, the error has only their number.
const MAX_NAMES: usize = 5;
/// The maximum number of autoscalers in files that an error names.
const MAX_DESCRIPTIONS: usize = 20;

/// The names of the resource, as kubectl accepts them in any case. A group or a version may follow.
pub(crate) const RESOURCE_NAMES: [&str; 2] = [hpa_calc::crd::KIND, hpa_calc::crd::PLURAL];
/// The short name of the resource, which a namespace may have as well.
pub(crate) const SHORT_RESOURCE_NAME: &str = "hpa";

/// The name of an autoscaler in a cluster.
#[derive(Debug)]
pub(crate) struct AutoscalerName {
    pub(crate) key: HpaKey,
    /// Whether the argument names the custom API by its prefix, which overrides the flag
    /// `--autoscaler-api`.
    has_prefix: bool,
}

impl AutoscalerName {
    /// Parses an argument as [`NameParts`] does. If the argument has no namespace, the namespace is
    /// that of the flag `--namespace`, else the default. A prefix in the argument overrides `api`.
    pub(crate) fn new(
        api: AutoscalerApi,
        argument: &str,
        flag_namespace: Option<&str>,
        default_namespace: &str,
    ) -> anyhow::Result<Self> {
        let parts = NameParts::new(argument, flag_namespace)?;
        let api = if parts.is_custom { AutoscalerApi::Custom } else { api };
        let namespace = parts.namespace.unwrap_or(default_namespace);
        Ok(Self { key: HpaKey::for_api(api, namespace, parts.name), has_prefix: parts.is_custom })
    }

    /// Returns the same name in the custom API, if the autoscaler can be read only there. Otherwise
    /// returns the name unchanged.
    pub(crate) async fn in_any_api(self, client: &Client) -> Self {
        let exists_in = async |api| get_object(client, &self.path_in(api)).await.is_ok();
        if exists_in(AutoscalerApi::Core).await || !exists_in(AutoscalerApi::Custom).await {
            return self;
        }
        let key = HpaKey { api: AutoscalerApi::Custom, ..self.key };
        Self { key, ..self }
    }

    /// Reads the autoscaler. If it doesn't exist, the error names the cause: the other API has it,
    /// or its API isn't served. Otherwise, it names other autoscalers, if they can be listed.
    pub(crate) async fn read(&self, client: &Client) -> anyhow::Result<Value> {
        let HpaKey { api, namespace, name } = &self.key;
        let error = match get_object(client, &self.path_in(*api)).await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let full_name = format!("{namespace}/{name}");
        if error.is::<NoResponse>() {
            return Err(error.context(format!("unable to read the autoscaler {full_name}")));
        }
        let other_api = other_api(*api);
        if get_object(client, &self.path_in(other_api)).await.is_ok() {
            let advice = if self.has_prefix {
                format!("leave out {}/", hpa_calc::crd::SHORT_NAME)
            } else {
                format!("add --autoscaler-api={}", other_api.name())
            };
            bail!("{full_name} is an autoscaler of {other_api}, not of {api}: {advice}");
        }
        if let Some(suggestions) = self.describe_others(client).await {
            bail!("there is no autoscaler {full_name}{suggestions}");
        }
        if is_not_served(client, *api).await {
            bail!("unable to read the autoscaler {full_name}: {}", describe_unserved(*api));
        }
        Err(error.context(format!("unable to read the autoscaler {full_name}")))
    }

    fn path_in(&self, api: AutoscalerApi) -> String {
        format!("{}/{}", list_path(api, Some(&self.key.namespace)), escape(&self.key.name))
    }

    /// Describes the other autoscalers of the namespace, in both APIs. `None` if those of this API
    /// can't be listed, or if this autoscaler is one of them.
    async fn describe_others(&self, client: &Client) -> Option<String> {
        let HpaKey { api, namespace, name: own_name } = &self.key;
        let key_of = |api, item: &Value| {
            HpaKey::for_api(api, namespace.clone(), string_at(item, "/metadata/name"))
        };
        let items = list(client, &list_path(*api, Some(namespace))).await.ok()?;
        let mut keys: Vec<_> = items.iter().map(|item| key_of(*api, item)).collect();
        if keys.contains(&self.key) {
            return None;
        }
        let other_api = other_api(*api);
        let others = list(client, &list_path(other_api, Some(namespace))).await;
        let is_other_api_known = others.as_ref().err().is_none_or(is_not_found);
        keys.extend(others.iter().flatten().map(|item| key_of(other_api, item)));
        let displayed =
            |key: &HpaKey| if key.api == *api { key.name.to_string() } else { key.to_string() };
        let names: Vec<_> = keys.iter().map(displayed).collect();
        let similar = keys.iter().filter(|key| is_similar(&key.name, own_name));
        let similar: Vec<_> = similar.map(displayed).collect();
        Some(match (names.as_slice(), similar.as_slice()) {
            ([], _) => {
                if let Some(missing) = missing_namespace(client, namespace).await {
                    format!(": {missing}{}", self.resource_hint())
                } else {
                    let namesakes = self.describe_namesakes(client).await;
                    let of_api =
                        if is_other_api_known { String::new() } else { format!(" of {api}") };
                    format!(": the namespace {namespace} has none{of_api}{namesakes}")
                }
            }
            (_, [_, ..]) => format!(". Similar: {}", shorten_names(&similar)),
            (names, []) if names.len() <= MAX_NAMES => {
                format!(". The namespace {namespace} has {}", names.join(", "))
            }
            (names, []) => format!(". The namespace {namespace} has {} others", names.len()),
        })
    }

    /// Advice if the namespace is a short name, which the user may have meant as the resource.
    fn resource_hint(&self) -> String {
        let HpaKey { namespace, name, .. } = &self.key;
        let is_short_name =
            [SHORT_RESOURCE_NAME, hpa_calc::crd::SHORT_NAME].contains(&&**namespace);
        if is_short_name {
            format!(". If {namespace} is the resource: {namespace}/NAMESPACE/{name}")
        } else {
            String::new()
        }
    }

    /// Names other namespaces that have an autoscaler of this name. Empty if there are none, or if
    /// the autoscalers of all namespaces can't be listed.
    async fn describe_namesakes(&self, client: &Client) -> String {
        let HpaKey { api, name, .. } = &self.key;
        let all = list(client, &list_path(*api, None)).await.unwrap_or_default();
        let namesakes = all.iter().filter(|item| string_at(item, "/metadata/name") == &**name);
        let namespaces: Vec<_> =
            namesakes.map(|item| string_at(item, "/metadata/namespace")).collect();
        match namespaces.as_slice() {
            [] => String::new(),
            names if names.len() <= MAX_NAMES => format!(". {name} is in {}", names.join(", ")),
            names => format!(". {name} is in {} other namespaces", names.len()),
        }
    }
}

/// The parts of an argument that names an autoscaler: `NAME` or `NAMESPACE/NAME`. As with kubectl,
/// a resource may precede either of them: `horizontalpodautoscaler/NAME`. `hpa/NAME` and
/// `rhpa/NAME` are autoscalers of the namespaces `hpa` and `rhpa`, unless the flag `--namespace` is
/// set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameParts<'a> {
    /// Whether the argument has the prefix of the custom API: `rhpa/NAMESPACE/NAME`, as in
    /// conditions and logs, or `rhpa/NAME` with the flag `--namespace`.
    is_custom: bool,
    /// The namespace of the argument, else that of the flag.
    pub(crate) namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> NameParts<'a> {
    /// Fails if the argument has another namespace than the flag `--namespace`.
    pub(crate) fn new(argument: &'a str, flag_namespace: Option<&'a str>) -> anyhow::Result<Self> {
        Self::parse(argument, flag_namespace, flag_namespace.is_some())
    }

    /// Like [`Self::new`]. `names_resource`: whether a short name at the start is the resource, not
    /// a namespace.
    fn parse(
        argument: &'a str,
        flag_namespace: Option<&'a str>,
        names_resource: bool,
    ) -> anyhow::Result<Self> {
        let without_prefix = argument.strip_prefix(hpa_calc::crd::SHORT_NAME);
        let without_prefix = without_prefix.and_then(|rest| rest.strip_prefix('/'));
        let without_prefix = without_prefix.filter(|rest| names_resource || rest.contains('/'));
        let is_custom = without_prefix.is_some();
        let argument = without_prefix.unwrap_or(argument);
        let argument = without_resource(argument, names_resource);
        let (namespace, name) = match argument.split_once('/') {
            Some((namespace, name)) => (Some(namespace), without_resource(name, true)),
            None => (flag_namespace, argument),
        };
        match (namespace, flag_namespace) {
            (Some(namespace), Some(flag)) if namespace != flag => {
                bail!("{argument} is not in the namespace {flag} that --namespace names")
            }
            _ => Ok(Self { is_custom, namespace, name }),
        }
    }

    /// Whether the parts name this object from a file.
    fn matches(&self, object: &Value) -> bool {
        let is_custom = || string_at(object, "/apiVersion") == hpa_calc::crd::API_VERSION;
        string_at(object, "/metadata/name") == self.name
            && is_in_namespace(object, self.namespace.unwrap_or_default())
            && (!self.is_custom || is_custom())
    }
}

pub(crate) fn other_api(api: AutoscalerApi) -> AutoscalerApi {
    match api {
        AutoscalerApi::Core => AutoscalerApi::Custom,
        AutoscalerApi::Custom => AutoscalerApi::Core,
    }
}

/// The path of all autoscalers of an API, or of those in a namespace.
pub(crate) fn list_path(api: AutoscalerApi, namespace: Option<&str>) -> String {
    let namespace = namespace.map(|name| format!("namespaces/{}/", escape(name)));
    format!("/apis/{api}/{}{}", namespace.unwrap_or_default(), hpa_calc::crd::PLURAL)
}

/// Whether the API server doesn't serve an API. `false` if that can't be read.
pub(crate) async fn is_not_served(client: &Client, api: AutoscalerApi) -> bool {
    matches!(get_if_served::<Value>(client, &format!("/apis/{api}")).await, Ok(None))
}

/// The error for an API that isn't served.
pub(crate) fn describe_unserved(api: AutoscalerApi) -> String {
    let hint = match api {
        AutoscalerApi::Core => "",
        AutoscalerApi::Custom => " (hpa crd prints its definition)",
    };
    format!("{api} is not installed{hint}")
}

/// Removes the resource from `RESOURCE/NAME`. `names_resource`: whether the short name before the
/// slash is the resource, not a namespace.
fn without_resource(argument: &str, names_resource: bool) -> &str {
    let Some((resource, name)) = argument.split_once('/') else { return argument };
    let resource = resource.split_once('.').map_or(resource, |(resource, _)| resource);
    let is_resource = RESOURCE_NAMES.iter().any(|known| resource.eq_ignore_ascii_case(known))
        || resource == SHORT_RESOURCE_NAME && (names_resource || name.contains('/'));
    if is_resource { name } else { argument }
}

/// Finds an autoscaler among objects from files. `argument` names it as [`NameParts`] describes. If
/// the namespaces `hpa` and `rhpa` have no autoscaler of the name, `hpa/NAME` and `rhpa/NAME` find
/// one of any namespace. Without an argument, the files must have exactly one autoscaler in the
/// namespace of the flag `--namespace`.
pub(crate) fn find_in_files<'a>(
    objects: impl Iterator<Item = &'a Value>,
    argument: Option<&str>,
    flag_namespace: Option<&str>,
) -> anyhow::Result<&'a Value> {
    let all: Vec<&Value> =
        objects.filter(|object| string_at(object, "/kind") == hpa_calc::crd::KIND).collect();
    let named = |parts: &NameParts<'_>| -> Vec<&'a Value> {
        all.iter().copied().filter(|object| parts.matches(object)).collect()
    };
    let matching = if let Some(argument) = argument {
        let found = named(&NameParts::new(argument, flag_namespace)?);
        if found.is_empty() && flag_namespace.is_none() {
            named(&NameParts::parse(argument, None, true)?)
        } else {
            found
        }
    } else {
        let namespace = flag_namespace.unwrap_or_default();
        all.iter().copied().filter(|object| is_in_namespace(object, namespace)).collect()
    };
    match matching.as_slice() {
        [only] => Ok(only),
        [] => bail!("the files have no such HorizontalPodAutoscaler"),
        several => {
            let descriptions: Vec<_> = several.iter().map(|object| describe(object)).collect();
            let listed = list_first(&descriptions, MAX_DESCRIPTIONS, ", ");
            bail!("the files have several autoscalers, name one: {listed}")
        }
    }
}

/// Decodes an autoscaler of `autoscaling/v2` or of the custom API. The error names the autoscaler
/// and the field, as in `hpa lint`.
pub(crate) fn decode(object: &Value) -> anyhow::Result<HorizontalPodAutoscaler> {
    decode_named(object, &describe(object))
}

/// Like [`decode`], with another name of the autoscaler in the error.
pub(crate) fn decode_named(object: &Value, name: &str) -> anyhow::Result<HorizontalPodAutoscaler> {
    decode_value(object.clone()).map_err(|error| {
        let errors = hpa_calc::crd::type_errors(object).unwrap_or_default();
        let cause = errors.first().map_or_else(|| error.to_string(), ToString::to_string);
        anyhow!("unable to decode {name}: {cause}")
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
    use serde_json::json;

    use super::*;
    use crate::kubectl::answering_client;

    #[test]
    fn error_about_many_autoscalers_in_files_names_the_first() {
        let object = |index| {
            let name = format!("web-{index}");
            json!({ "kind": "HorizontalPodAutoscaler", "metadata": { "name": name } })
        };
        let objects: Vec<Value> = (0..30).map(object).collect();
        let error = find_in_files(objects.iter(), None, None).expect_err("several").to_string();
        assert!(error.contains("HorizontalPodAutoscaler web-19 and 10 more"), "{error}");
    }

    #[rstest]
    #[case::not_served(404, ": the namespace shop has none")]
    #[case::forbidden(403, ": the namespace shop has none of autoscaling/v2")]
    #[tokio::test]
    async fn namespace_has_none_of_the_apis_that_were_read(
        #[case] code_of_other_api: u16,
        #[case] expected: &str,
    ) {
        let client = answering_client(move |path| match path {
            "/api/v1/namespaces/shop" => (200, json!({})),
            _ if path.starts_with("/apis/autoscaling/") => (200, json!({ "items": [] })),
            _ => (code_of_other_api, json!({})),
        });
        let name = AutoscalerName::new(AutoscalerApi::Core, "shop/web", None, "default");
        let others = name.expect("a name").describe_others(&client).await;
        assert_eq!(others.as_deref(), Some(expected));
    }

    #[rstest]
    #[case::name("web", None, "default", "web")]
    #[case::namespace("shop/web", None, "shop", "web")]
    #[case::resource("horizontalpodautoscaler/web", Some("shop"), "shop", "web")]
    #[case::plural("horizontalpodautoscalers.v2.autoscaling/web", None, "default", "web")]
    #[case::short("hpa/web", Some("shop"), "shop", "web")]
    #[case::namespace_like_the_short_name("hpa/web", None, "hpa", "web")]
    #[case::resource_and_namespace("horizontalpodautoscaler/shop/web", None, "shop", "web")]
    #[case::short_and_namespace("hpa/shop/web", None, "shop", "web")]
    #[case::namespace_and_short("shop/hpa/web", None, "shop", "web")]
    #[case::namespace_and_short_with_flag("shop/hpa/web", Some("shop"), "shop", "web")]
    fn resource_may_precede_the_name(
        #[case] argument: &str,
        #[case] flag: Option<&str>,
        #[case] namespace: &str,
        #[case] name: &str,
    ) {
        let parsed =
            AutoscalerName::new(AutoscalerApi::Core, argument, flag, "default").expect("a name");
        assert_eq!(parsed.key, HpaKey::new(namespace, name));
    }

    #[rstest]
    #[case::with_flag("rhpa/web", Some("shop"), AutoscalerApi::Custom, "shop")]
    #[case::with_namespace("rhpa/shop/web", None, AutoscalerApi::Custom, "shop")]
    #[case::namespace_like_the_prefix("rhpa/web", None, AutoscalerApi::Core, "rhpa")]
    #[case::prefix_and_namespace_like_it("rhpa/rhpa/web", None, AutoscalerApi::Custom, "rhpa")]
    fn prefix_selects_the_custom_api(
        #[case] argument: &str,
        #[case] flag: Option<&str>,
        #[case] api: AutoscalerApi,
        #[case] namespace: &str,
    ) {
        let parsed =
            AutoscalerName::new(AutoscalerApi::Core, argument, flag, "default").expect("a name");
        assert_eq!(parsed.key, HpaKey::for_api(api, namespace, "web"));
    }

    #[rstest]
    #[case::core("hpa", ". If hpa is the resource: hpa/NAMESPACE/web")]
    #[case::custom("rhpa", ". If rhpa is the resource: rhpa/NAMESPACE/web")]
    #[case::other("shop", "")]
    fn short_name_in_place_of_a_missing_namespace_has_a_hint(
        #[case] namespace: &str,
        #[case] expected: &str,
    ) {
        let argument = format!("{namespace}/web");
        let name = AutoscalerName::new(AutoscalerApi::Core, &argument, None, "default");
        assert_eq!(name.expect("a name").resource_hint(), expected);
    }

    #[test]
    fn namespace_must_be_that_of_the_flag() {
        let error = AutoscalerName::new(AutoscalerApi::Core, "a/web", Some("shop"), "default");
        let error = error.expect_err("another namespace").to_string();
        assert_eq!(error, "a/web is not in the namespace shop that --namespace names");
    }

    #[rstest]
    #[case::name("web", None, Ok("shop"))]
    #[case::flag("web", Some("shop"), Ok("shop"))]
    #[case::short("hpa/web", None, Ok("shop"))]
    #[case::short_with_flag("hpa/web", Some("shop"), Ok("shop"))]
    #[case::namespace_and_short("shop/hpa/web", None, Ok("shop"))]
    #[case::resource("horizontalpodautoscalers.autoscaling/web", None, Ok("shop"))]
    #[case::custom_with_flag(
        "rhpa/web",
        Some("shop"),
        Err("the files have no such HorizontalPodAutoscaler")
    )]
    #[case::custom("rhpa/shop/web", None, Err("the files have no such HorizontalPodAutoscaler"))]
    #[case::namespace_like_the_short_name("hpa/api", None, Ok("hpa"))]
    #[case::other_flag("web", Some("a"), Err("the files have no such HorizontalPodAutoscaler"))]
    #[case::two_namespaces(
        "shop/web",
        Some("a"),
        Err("shop/web is not in the namespace a that --namespace names")
    )]
    fn autoscaler_in_files_has_the_names_of_one_in_a_cluster(
        #[case] argument: &str,
        #[case] flag: Option<&str>,
        #[case] expected: Result<&str, &str>,
    ) {
        let autoscaler = |namespace: &str, name: &str| {
            json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": { "namespace": namespace, "name": name },
            })
        };
        let all = [autoscaler("shop", "web"), autoscaler("shop", "api"), autoscaler("hpa", "api")];
        let found = find_in_files(all.iter(), Some(argument), flag);
        let namespace = found.map(|object| string_at(object, "/metadata/namespace"));
        let namespace = namespace.map_err(|error| error.to_string());
        assert_eq!(namespace.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn error_about_a_time_out_of_range_names_autoscaler_and_field() {
        let hpa = json!({
            "kind": "HorizontalPodAutoscaler", "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "web" } },
            "status": { "lastScaleTime": "9999-12-31T23:59:59Z" },
        });
        let error = decode(&hpa).expect_err("a time out of range").to_string();
        let reason = "status.lastScaleTime: failed to convert ";
        let expected = format!("unable to decode HorizontalPodAutoscaler shop/web: {reason}");
        assert!(error.starts_with(&expected), "{error}");
        let error = decode_named(&hpa, "the autoscaler rhpa/shop/web").expect_err("as before");
        let expected = format!("unable to decode the autoscaler rhpa/shop/web: {reason}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn namespace_of_the_flag_selects_the_only_autoscaler_of_files() {
        let of = |namespace: &str| {
            json!({
                "kind": "HorizontalPodAutoscaler",
                "metadata": { "namespace": namespace, "name": "web" },
            })
        };
        let all = [of("shop"), of("other")];
        let found = find_in_files(all.iter(), None, Some("shop")).expect("one autoscaler");
        assert_eq!(string_at(found, "/metadata/namespace"), "shop");
        let error = find_in_files(all.iter(), None, None).expect_err("two autoscalers").to_string();
        assert!(error.contains("shop/web, HorizontalPodAutoscaler other/web"), "{error}");
    }
}
