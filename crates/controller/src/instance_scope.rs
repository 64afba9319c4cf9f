//! The autoscalers that an instance handles, as it publishes them on its lease.

use hpa_calc::explain::list_first;
use serde::{Deserialize, Serialize};

use crate::key::AutoscalerApi;

/// The annotation with the [`InstanceScope`] of the lease holder.
pub const INSTANCE_SCOPE: &str = "hpa-controller/instance-scope";

/// The maximum length of the annotation in bytes. Each renewal of the lease sends it.
const MAX_LENGTH: usize = 4096;

/// The maximum number of namespaces that a log line names.
const MAX_NAMED_NAMESPACES: usize = 10;

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

    /// Whether the instance handles the autoscalers of an API in a namespace, or in all namespaces
    /// if it is `None`.
    pub fn handles(&self, api: AutoscalerApi, namespace: Option<&str>) -> bool {
        let is_named = |name: &String| namespace == Some(name.as_str());
        self.apis.contains(&api)
            && (self.namespaces.is_empty() || self.namespaces.iter().any(is_named))
    }

    /// Whether the instance handles all autoscalers that another one would handle.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let handles_all = |api: &AutoscalerApi| {
            if other.namespaces.is_empty() {
                return self.handles(*api, None);
            }
            other.namespaces.iter().all(|name| self.handles(*api, Some(name)))
        };
        other.apis.iter().all(handles_all)
    }

    /// The handled autoscalers, such as `autoscaling/v2 in shop`.
    pub(crate) fn describe(&self) -> String {
        if self.apis.is_empty() {
            return "none".to_owned();
        }
        let apis: Vec<_> = self.apis.iter().map(ToString::to_string).collect();
        let apis = apis.join(" and ");
        if self.namespaces.is_empty() {
            return format!("{apis} in all namespaces");
        }
        format!("{apis} in {}", list_first(&self.namespaces, MAX_NAMED_NAMESPACES, ", "))
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

    #[rstest]
    #[case::same(&["shop"], &["shop"], true)]
    #[case::all(&[], &["shop"], true)]
    #[case::more(&["blog", "shop"], &["shop"], true)]
    #[case::other(&["shop"], &["blog"], false)]
    #[case::one_missing(&["shop"], &["blog", "shop"], false)]
    #[case::not_all(&["shop"], &[], false)]
    fn scope_covers_only_scopes_without_other_namespaces_or_apis(
        #[case] holder: &[&str],
        #[case] own: &[&str],
        #[case] is_covered: bool,
    ) {
        let [holder, own] = [holder, own]
            .map(|names| scope(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
        assert_eq!(holder.covers(&own), is_covered);
        let of_custom_api = InstanceScope { apis: vec![AutoscalerApi::Custom], ..own.clone() };
        assert!(!holder.covers(&of_custom_api));
        let dry_run = InstanceScope { apis: Vec::new(), ..own };
        assert!(holder.covers(&dry_run), "a dry run acts on none");
        assert_eq!(dry_run.describe(), "none");
    }

    #[test]
    fn scope_is_described_by_its_namespaces() {
        assert_eq!(scope(&[]).describe(), "autoscaling/v2 in all namespaces");
        let names = (0..12).map(|at| format!("n{at}")).collect::<Vec<_>>();
        let several = "autoscaling/v2 in n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more";
        assert_eq!(scope(&names).describe(), several);
    }
}
