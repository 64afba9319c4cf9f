//! The autoscalers that an instance handles, as it publishes them on its lease.

use serde::{Deserialize, Serialize};

use crate::key::AutoscalerApi;

/// The annotation with the [`InstanceScope`] of the lease holder.
pub const INSTANCE_SCOPE: &str = "hpa-controller/instance-scope";

/// The maximum length of the annotation in bytes. Each renewal of the lease sends it.
const MAX_LENGTH: usize = 4096;

/// The autoscalers that a lease holder handles. Unknown members count as an error, because they may
/// exclude autoscalers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceScope {
    /// The identity of the holder that wrote it. A holder of an earlier version keeps the
    /// annotation of its predecessor.
    pub holder: String,
    pub apis: Vec<AutoscalerApi>,
    /// Empty for all namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

impl InstanceScope {
    /// The value of the annotation. `None` if it would be too long: then the scope is unknown.
    pub(crate) fn to_annotation(&self) -> Option<String> {
        serde_json::to_string(self).ok().filter(|text| text.len() <= MAX_LENGTH)
    }

    /// The scope of the lease holder, by the annotation of its lease. `None` if it is unknown: the
    /// value is invalid or too long, or another holder wrote it.
    pub fn parse(annotation: &str, holder: &str) -> Option<Self> {
        let text = Some(annotation).filter(|text| text.len() <= MAX_LENGTH)?;
        let scope: Self = serde_json::from_str(text).ok()?;
        Some(scope).filter(|scope| scope.holder == holder)
    }

    /// Whether the instance handles the autoscalers of a namespace, or of all if it is `None`.
    pub fn handles(&self, api: AutoscalerApi, namespace: Option<&str>) -> bool {
        let is_named = |name: &String| namespace == Some(name.as_str());
        self.apis.contains(&api)
            && (self.namespaces.is_empty() || self.namespaces.iter().any(is_named))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn scope(namespaces: &[String]) -> InstanceScope {
        let (holder, apis) = ("a_1".to_owned(), vec![AutoscalerApi::Core]);
        InstanceScope { holder, apis, namespaces: namespaces.to_vec() }
    }

    #[test]
    fn annotation_is_read_for_its_holder_only() {
        let all = scope(&[]).to_annotation().expect("an annotation");
        assert_eq!(all, r#"{"holder":"a_1","apis":["core"]}"#);
        let shop = scope(&["shop".to_owned()]).to_annotation().expect("an annotation");
        assert_eq!(shop, r#"{"holder":"a_1","apis":["core"],"namespaces":["shop"]}"#);
        assert_eq!(InstanceScope::parse(&shop, "a_1"), Some(scope(&["shop".to_owned()])));
        assert_eq!(InstanceScope::parse(&shop, "b_1"), None);
    }

    #[rstest]
    #[case::no_json("core")]
    #[case::other_api(r#"{"holder":"a_1","apis":["other"]}"#)]
    #[case::no_apis(r#"{"holder":"a_1","namespaces":["shop"]}"#)]
    #[case::of_a_later_version(r#"{"holder":"a_1","apis":["core"],"labels":"a=b"}"#)]
    fn scope_of_an_invalid_annotation_is_unknown(#[case] annotation: &str) {
        assert_eq!(InstanceScope::parse(annotation, "a_1"), None);
    }

    #[test]
    fn long_list_of_namespaces_is_neither_published_nor_read() {
        let names = |count: usize| (0..count).map(|at| format!("team-{at:04}")).collect::<Vec<_>>();
        assert!(scope(&names(300)).to_annotation().is_some());
        let long = scope(&names(400));
        assert_eq!(long.to_annotation(), None);
        let text = serde_json::to_string(&long).expect("JSON");
        assert_eq!(InstanceScope::parse(&text, "a_1"), None);
    }

    #[test]
    fn instance_for_one_namespace_does_not_handle_several() {
        let shop = scope(&["shop".to_owned()]);
        let handled = [Some("shop"), Some("blog"), None].map(|namespace| {
            [&shop, &scope(&[])].map(|scope| scope.handles(AutoscalerApi::Core, namespace))
        });
        assert_eq!(handled, [[true, true], [false, true], [false, true]]);
        assert!(!shop.handles(AutoscalerApi::Custom, Some("shop")));
    }
}
