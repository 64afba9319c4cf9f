//! Finds the route of a path.

use hpa_calc::MetricsApi;
use hpa_metrics::ApiGroups;

use crate::metrics_api::{
    accept::Representations,
    group::{GroupVersion, installed_apis, served_versions},
    status::StatusError,
};

/// The document or metrics at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/apis`: the groups.
    Groups,
    /// `/apis/GROUP`: the versions of a group.
    Group(MetricsApi),
    /// `/apis/GROUP/VERSION`: the resources.
    Resources(GroupVersion),
    /// A custom metric of objects, in one of [`served_versions`].
    Custom(&'static str),
    /// An external metric.
    External,
    /// The metrics of pods in one or all namespaces.
    Pods,
    /// The metrics of a pod.
    Pod,
    /// The metrics of all nodes.
    Nodes,
    /// The metrics of a node.
    Node,
}

/// The reason that a path has no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The path is not in an installed group. The response is the list of existing paths.
    UnknownPath,
    /// The group has no such resource, or the method or the media type is not served.
    Refused(StatusError),
}

impl Route {
    /// Finds the route of a percent-decoded path. `accept` is the header of that name.
    pub fn find(
        groups: ApiGroups,
        method: &str,
        path: &str,
        accept: &str,
    ) -> Result<Self, NoRoute> {
        let route = Self::of_path(groups, path)?;
        if method != "GET" {
            return Err(NoRoute::Refused(StatusError::method_not_allowed()));
        }
        let representations = route.representations();
        if !representations.are_accepted(accept) {
            let error = StatusError::no_representation(representations.names());
            return Err(NoRoute::Refused(error));
        }
        Ok(route)
    }

    /// Finds the route of a percent-decoded path, for any method and media type.
    pub(crate) fn of_path(groups: ApiGroups, path: &str) -> Result<Self, NoRoute> {
        if matches!(path, "/apis" | "/apis/") {
            return Ok(Self::Groups);
        }
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let ["apis", group, rest @ ..] = segments.as_slice() else {
            return Err(NoRoute::UnknownPath);
        };
        let group = installed_apis(groups).find(|api| api.group() == *group);
        let group = group.filter(|_| path.starts_with('/')).ok_or(NoRoute::UnknownPath)?;
        let [version, rest @ ..] = rest else { return Ok(Self::Group(group)) };
        let unknown = || NoRoute::Refused(StatusError::unknown_resource());
        let version = served_versions(group).iter().copied().find(|known| known == version);
        let version = version.ok_or_else(unknown)?;
        if rest.is_empty() {
            return Ok(Self::Resources(GroupVersion { group, version }));
        }
        match (group, rest) {
            // `RESOURCE/NAME/METRIC`, `namespaces/NAMESPACE/metrics/METRIC` or
            // `namespaces/NAMESPACE/RESOURCE/NAME/METRIC`
            (
                MetricsApi::Custom,
                [_, _, _] | ["namespaces", _, "metrics", _] | ["namespaces", _, _, _, _],
            ) => Ok(Self::Custom(version)),
            (MetricsApi::External, ["namespaces", _, _]) => Ok(Self::External),
            (MetricsApi::Resource, ["pods"] | ["namespaces", _, "pods"]) => Ok(Self::Pods),
            (MetricsApi::Resource, ["namespaces", _, "pods", _]) => Ok(Self::Pod),
            (MetricsApi::Resource, ["nodes"]) => Ok(Self::Nodes),
            (MetricsApi::Resource, ["nodes", _]) => Ok(Self::Node),
            _ => Err(unknown()),
        }
    }

    fn representations(self) -> Representations {
        match self {
            Self::Groups | Self::Group(_) | Self::Resources(_) | Self::Pod | Self::Node => {
                Representations::Document
            }
            Self::Custom(_) | Self::External | Self::Pods | Self::Nodes => Representations::List,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
    const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
    const RESOURCE: &str = "/apis/metrics.k8s.io/v1beta1";

    fn find(path: &str) -> Result<Route, u16> {
        Route::find(ApiGroups::ALL, "GET", path, "").map_err(|error| match error {
            NoRoute::UnknownPath => 0,
            NoRoute::Refused(error) => error.code,
        })
    }

    #[rstest]
    #[case("/namespaces/a/pods/*/m", true)]
    #[case("/namespaces//pods/*/m", true)]
    #[case("/namespaces/a/metrics/m", true)]
    #[case("/nodes/*/m/", true)]
    #[case("/namespaces/a/pods", true)]
    #[case("/namespaces/a", false)]
    #[case("/namespaces/a/pods/b", false)]
    #[case("/watch/namespaces/a/pods/*/m", false)]
    #[case("/a/b/c/d/e/f/g", false)]
    fn custom_metrics_have_three_paths(#[case] path: &str, #[case] is_found: bool) {
        let expected = if is_found { Ok(Route::Custom("v1beta2")) } else { Err(404) };
        assert_eq!(find(&format!("{CUSTOM}{path}")), expected);
    }

    #[rstest]
    #[case("/pods", Ok(Route::Pods))]
    #[case("/namespaces/a/pods", Ok(Route::Pods))]
    #[case("/namespaces/a/pods/b", Ok(Route::Pod))]
    #[case("/nodes", Ok(Route::Nodes))]
    #[case("/nodes/a", Ok(Route::Node))]
    #[case("/namespaces/a/nodes", Err(404))]
    #[case("/pods/a", Err(404))]
    #[case("/widgets", Err(404))]
    fn resource_metrics_have_five_paths(#[case] path: &str, #[case] expected: Result<Route, u16>) {
        assert_eq!(find(&format!("{RESOURCE}{path}")), expected);
    }

    #[rstest]
    #[case("/apis", Ok(Route::Groups))]
    #[case("/apis/metrics.k8s.io", Ok(Route::Group(MetricsApi::Resource)))]
    #[case("/apis/metrics.k8s.io/v1", Err(404))]
    #[case("/apis/apps/v1", Err(0))]
    #[case("/api", Err(0))]
    #[case("/", Err(0))]
    fn discovery_has_a_path_for_each_level(
        #[case] path: &str,
        #[case] expected: Result<Route, u16>,
    ) {
        assert_eq!(find(path), expected);
    }

    #[test]
    fn external_metrics_have_one_path() {
        assert_eq!(find(&format!("{EXTERNAL}/namespaces/a/m")), Ok(Route::External));
        assert_eq!(find(&format!("{EXTERNAL}/m")), Err(404));
        assert_eq!(find(&format!("{EXTERNAL}/namespaces/a/m/x")), Err(404));
    }

    #[test]
    fn groups_that_are_not_installed_have_no_paths() {
        let groups = ApiGroups { custom: true, ..ApiGroups::default() };
        let found = Route::find(groups, "GET", RESOURCE, "");
        assert_eq!(found, Err(NoRoute::UnknownPath));
    }

    #[test]
    fn method_is_checked_before_the_media_type() {
        let code =
            |method, path: &str, accept| match Route::find(ApiGroups::ALL, method, path, accept) {
                Err(NoRoute::Refused(error)) => error.code,
                other => panic!("{other:?}"),
            };
        assert_eq!(code("POST", RESOURCE, "text/html"), 405);
        assert_eq!(code("GET", RESOURCE, "text/html"), 406);
        assert_eq!(code("POST", &format!("{RESOURCE}/widgets"), ""), 404);
    }
}
