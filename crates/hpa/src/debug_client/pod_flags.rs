//! The flags of a pod's container, and the autoscalers that they select.

use clap::ValueEnum;
use hpa_controller::AutoscalerApi;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::args::AutoscalerApiArgument;

/// The environment variables that replace the flags of [`InstanceScope`].
const VARIABLES: [&str; 2] = ["HPA_AUTOSCALER_API", "HPA_NAMESPACE"];

/// The autoscalers that an instance of hpa-rs handles, by the flags of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstanceScope {
    pub(crate) apis: Vec<AutoscalerApi>,
    /// All if it is empty.
    pub(crate) namespaces: Vec<String>,
}

impl InstanceScope {
    /// `None` if it is unknown: no container runs hpa-rs, a variable may replace a flag, or a flag
    /// has a short name or a reference to a variable.
    pub(super) fn of_pod(pod: &Pod) -> Option<Self> {
        let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let container = containers.find(|container| words(container).any(|word| word == "run"))?;
        let mut names = container.env.iter().flatten().map(|variable| &*variable.name);
        let has_variables = names.any(|name| VARIABLES.contains(&name))
            || container.env_from.as_ref().is_some_and(|sources| !sources.is_empty());
        let words: Vec<String> = words(container).cloned().collect();
        if has_variables || words.iter().any(|word| word.starts_with("-n") || word.contains("$(")) {
            return None;
        }
        let apis = match flag_values(&words, "--autoscaler-api").next_back() {
            Some(api) => AutoscalerApiArgument::from_str(api, false).ok()?.apis(),
            None => vec![AutoscalerApi::Core],
        };
        let namespaces = flag_values(&words, "--namespace").flat_map(|value| value.split(','));
        Some(Self { apis, namespaces: namespaces.map(ToOwned::to_owned).collect() })
    }

    /// Whether the instance handles the autoscalers of a namespace, or of all if it is `None`.
    pub(crate) fn handles(&self, api: AutoscalerApi, namespace: Option<&str>) -> bool {
        let is_named = |name: &String| namespace == Some(name.as_str());
        self.apis.contains(&api)
            && (self.namespaces.is_empty() || self.namespaces.iter().any(is_named))
    }
}

/// The command and the arguments of a container.
fn words(container: &Container) -> impl Iterator<Item = &String> {
    container.command.iter().chain(&container.args).flatten()
}

/// The values of a flag: `--flag=value` or `--flag value`.
pub(crate) fn flag_values<'a>(
    words: &'a [String],
    flag: &str,
) -> impl DoubleEndedIterator<Item = &'a str> {
    words.iter().enumerate().filter_map(move |(index, word)| {
        let value = word.strip_prefix(flag)?;
        match value.strip_prefix('=') {
            Some(value) => Some(value),
            None if value.is_empty() => words.get(index + 1).map(String::as_str),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::of_the_chart(json!({ "args": ["run", "--in-cluster"] }), Some((true, true)))]
    #[case::one_namespace(json!({ "args": ["run", "--namespace=shop"] }), Some((true, false)))]
    #[case::several(
        json!({ "command": ["hpa", "run"], "args": ["--namespace", "a,b", "--namespace=blog"] }),
        Some((false, true))
    )]
    #[case::custom_api(json!({ "args": ["run", "--autoscaler-api=custom"] }), Some((false, false)))]
    #[case::both_apis(json!({ "args": ["run", "--autoscaler-api", "both"] }), Some((true, true)))]
    #[case::short_name(json!({ "args": ["run", "-n", "shop"] }), None)]
    #[case::reference(json!({ "args": ["run", "--namespace=$(NAME)"] }), None)]
    #[case::variable(json!({ "args": ["run"], "env": [{ "name": "HPA_NAMESPACE" }] }), None)]
    #[case::unknown_variables(
        json!({ "args": ["run"], "envFrom": [{ "configMapRef": { "name": "a" } }] }),
        None
    )]
    #[case::other_program(json!({ "args": ["serve"] }), None)]
    fn flags_select_core_autoscalers_of_shop_and_of_blog(
        #[case] mut container: Value,
        #[case] expected: Option<(bool, bool)>,
    ) {
        container["name"] = json!("hpa");
        let pod = json!({ "metadata": {}, "spec": { "containers": [container] } });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let scope = InstanceScope::of_pod(&pod);
        let handles = |scope: InstanceScope| {
            let [shop, blog] = ["shop", "blog"]
                .map(|namespace| scope.handles(AutoscalerApi::Core, Some(namespace)));
            (shop, blog)
        };
        assert_eq!(scope.map(handles), expected);
    }

    #[test]
    fn instance_for_one_namespace_does_not_handle_several() {
        let (apis, namespaces) = (vec![AutoscalerApi::Core], vec!["shop".to_owned()]);
        let scope = InstanceScope { apis, namespaces };
        assert!(!scope.handles(AutoscalerApi::Core, None));
        assert!(
            InstanceScope { namespaces: Vec::new(), ..scope }.handles(AutoscalerApi::Core, None)
        );
    }
}
