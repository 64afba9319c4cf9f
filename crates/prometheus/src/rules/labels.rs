//! Maps labels of series to resources.

use std::collections::HashMap;

use crate::rules::{
    config::{Overrides, ResourceMapping},
    regex_budget::RegexBudget,
};
use hpa_calc::{go_text::Quoted, suggestions::most_similar};
use hpa_go_compat::{
    regex::{GoRegex, RegexError},
    template::{Struct, Template, TemplateError, Value},
};
use hpa_metrics::resource::{ApiResource, ApiResources, GroupResource, ResourceError};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// The template's syntax is wrong.
    #[error("unable to parse label template {}: {source}", Quoted(template))]
    Syntax { template: String, source: TemplateError },
    /// No regular expression for the template's labels can be derived.
    #[error("unable to generate label format from template {}: {source}", Quoted(template))]
    Format { template: String, source: FormatError },
    /// An override has an unknown resource.
    #[error(
        "unable to normalize group-resource {{{} {}}}: {source}",
        source.group,
        source.resource
    )]
    Override {
        label: String,
        source: ResourceError,
        /// A resource with a similar name.
        similar: Option<String>,
    },
}

impl MappingError {
    /// The path of the invalid field, relative to the rule.
    pub(crate) fn field(&self) -> String {
        match self {
            Self::Override { label, .. } => format!("resources.overrides.{label}"),
            Self::Syntax { .. } | Self::Format { .. } => "resources.template".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The template can't be rendered.
    #[error("unable to convert label template to matcher: {0}")]
    Template(#[source] TemplateError),
    /// The template renders an empty string.
    #[error("unable to convert label template to matcher: empty template")]
    Empty,
    /// The rendered template is not a regular expression.
    #[error("unable to convert label template to matcher: {0}")]
    Regex(#[source] RegexError),
    /// The label doesn't depend on the resource.
    #[error("must include at least `{{{{.Resource}}}}` in the label template")]
    NoResource,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to convert resource {resource} into label: {problem}")]
pub struct LabelError {
    pub resource: GroupResource,
    pub problem: String,
}

/// An override whose resource has an earlier override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousLabel {
    pub resource: GroupResource,
    /// The label that queries use: the first in the file.
    pub used: String,
    /// The label that queries don't use.
    pub unused: String,
}

/// Maps between labels and resources, by the overrides and the template of a rule.
#[derive(Debug)]
pub struct ResourceLabels {
    /// The overrides.
    resource_by_label: HashMap<String, GroupResource>,
    /// The first override of each resource.
    label_by_resource: HashMap<GroupResource, String>,
    template: Option<LabelTemplate>,
    ambiguous: Vec<AmbiguousLabel>,
}

#[derive(Debug)]
struct LabelTemplate {
    template: Template,
    /// Matches the labels that the template renders.
    regex: GoRegex,
    group_index: Option<usize>,
    resource_index: usize,
}

impl ResourceLabels {
    /// Compiles the mapping of a rule.
    pub fn new(mapping: &ResourceMapping, resources: &ApiResources) -> Result<Self, MappingError> {
        let template = match &*mapping.template {
            "" => None,
            template => Some(LabelTemplate::new(template)?),
        };
        let mut labels = Self {
            resource_by_label: HashMap::new(),
            label_by_resource: HashMap::new(),
            template,
            ambiguous: Vec::new(),
        };
        labels.add_overrides(&mapping.overrides, resources)?;
        Ok(labels)
    }

    fn add_overrides(
        &mut self,
        overrides: &Overrides,
        resources: &ApiResources,
    ) -> Result<(), MappingError> {
        for (label, target) in overrides.iter() {
            let resolved = resources.resolve(&target.group, &target.resource);
            let resource = resolved.map_err(|source| MappingError::Override {
                label: label.to_owned(),
                source,
                similar: most_similar(&target.resource, resources.names()).map(str::to_owned),
            })?;
            let resource = &resource.group_resource;
            self.resource_by_label.insert(label.to_owned(), resource.clone());
            // Queries use the first label of a resource. prometheus-adapter chooses one at random
            // at each start.
            if let Some(used) = self.label_by_resource.get(resource) {
                self.ambiguous.push(AmbiguousLabel {
                    resource: resource.clone(),
                    used: used.clone(),
                    unused: label.to_owned(),
                });
            } else {
                self.label_by_resource.insert(resource.clone(), label.to_owned());
            }
        }
        Ok(())
    }

    /// The resources with an override, in the order of their names.
    pub fn overridden(&self) -> Vec<&GroupResource> {
        let mut resources: Vec<_> = self.label_by_resource.keys().collect();
        resources.sort_unstable_by_key(ToString::to_string);
        resources
    }

    /// Labels of overrides that queries don't use.
    pub fn ambiguous(&self) -> &[AmbiguousLabel] {
        &self.ambiguous
    }

    /// Counts the expression of the template against the budget.
    pub(crate) fn charge(&self, budget: &mut RegexBudget) -> Result<(), MappingError> {
        let Some(LabelTemplate { regex, template, .. }) = &self.template else { return Ok(()) };
        budget.charge(regex).map_err(|error| MappingError::Format {
            template: template.text().to_owned(),
            source: FormatError::Regex(error),
        })
    }

    /// The resource whose objects a label names. An override takes precedence over the template.
    pub fn resource<'a>(
        &'a self,
        label: &str,
        resources: &'a ApiResources,
    ) -> Option<&'a GroupResource> {
        if let Some(resource) = self.resource_by_label.get(label) {
            return Some(resource);
        }
        let (group, resource) = self.template.as_ref()?.group_and_resource(label)?;
        let resolved = resources.resolve(group, resource).ok()?;
        Some(&resolved.group_resource)
    }

    /// The label for the names of a resource's objects.
    pub fn label(
        &self,
        resource: &GroupResource,
        resources: &ApiResources,
    ) -> Result<String, LabelError> {
        if let Some(label) = self.label_by_resource.get(resource) {
            return Ok(label.clone());
        }
        let no_template = "no generic resource label form specified for this metric";
        let unknown = "unable to singularize resource: the API has no such resource";
        let label = match (&self.template, resources.get(resource)) {
            (None, _) => Err(no_template.to_owned()),
            (Some(_), None) => Err(unknown.to_owned()),
            (Some(template), Some(resource)) => template.label(resource),
        };
        label.map_err(|problem| LabelError { resource: resource.clone(), problem })
    }
}

impl LabelTemplate {
    fn new(text: &str) -> Result<Self, MappingError> {
        let template = Template::parse("resource-label", text)
            .map_err(|source| MappingError::Syntax { template: text.to_owned(), source })?;
        Self::invert(template)
            .map_err(|source| MappingError::Format { template: text.to_owned(), source })
    }

    /// Derives a regular expression that matches the labels that the template renders.
    fn invert(template: Template) -> Result<Self, FormatError> {
        let data = group_resource("(?P<group>.+?)", "(?P<resource>.+?)");
        let pattern = template.render(data).map_err(FormatError::Template)?;
        if pattern.is_empty() {
            return Err(FormatError::Empty);
        }
        let regex = GoRegex::new(&format!("^{pattern}$")).map_err(FormatError::Regex)?;
        let resource_index = regex.group_index("resource").ok_or(FormatError::NoResource)?;
        let group_index = regex.group_index("group");
        Ok(Self { template, regex, group_index, resource_index })
    }

    /// Extracts the group and the resource from a label.
    fn group_and_resource<'l>(&self, label: &'l str) -> Option<(&'l str, &'l str)> {
        let resource = self.regex.group(label, self.resource_index)?;
        let group = self.group_index.and_then(|index| self.regex.group(label, index));
        Some((group.unwrap_or_default(), resource))
    }

    fn label(&self, resource: &ApiResource) -> Result<String, String> {
        let group = resource.group_resource.group.replace(['.', '-'], "_");
        let data = group_resource(&group, &resource.singular);
        let label = self.template.render(data).map_err(|error| error.to_string())?;
        if label.is_empty() {
            return Err("empty label produced by label template".to_owned());
        }
        Ok(label)
    }
}

/// The data of a label template.
fn group_resource(group: &str, resource: &str) -> Value {
    let string = GroupResource::new(group, resource).to_string();
    Value::Struct(
        Struct {
            type_name: "schema.GroupResource",
            fields: vec![("Group", Value::text(group)), ("Resource", Value::text(resource))],
            string: Some(string.into()),
        }
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::config::OverrideTarget;
    use hpa_metrics::test_doubles::resources;

    fn labels(template: &str, overrides: &[(&str, &str)]) -> Result<ResourceLabels, MappingError> {
        let mut mapping =
            ResourceMapping { template: template.to_owned(), ..ResourceMapping::default() };
        for (label, resource) in overrides {
            let target = OverrideTarget { group: String::new(), resource: (*resource).to_owned() };
            mapping.overrides.set((*label).to_owned(), target);
        }
        ResourceLabels::new(&mapping, &resources())
    }

    #[rstest]
    #[case::override_first("kube_<<.Resource>>", "instance", Some("nodes"))]
    #[case::template("kube_<<.Resource>>", "kube_pod", Some("pods"))]
    #[case::plural("kube_<<.Resource>>", "kube_pods", Some("pods"))]
    #[case::whole_label("kube_<<.Resource>>", "my_kube_pod", None)]
    #[case::group("<<.Group>>_<<.Resource>>", "apps_deployment", Some("deployments.apps"))]
    #[case::group_prefix(
        "<<.Group>>_<<.Resource>>",
        "networking_ingress",
        Some("ingresses.networking.k8s.io")
    )]
    #[case::other_group("<<.Group>>_<<.Resource>>", "apps_pod", None)]
    #[case::no_template("", "pod", None)]
    fn labels_name_resources(
        #[case] template: &str,
        #[case] label: &str,
        #[case] expected: Option<&str>,
    ) {
        let labels = labels(template, &[("instance", "node")]).unwrap();
        let resources = resources();
        let resource = labels.resource(label, &resources).map(ToString::to_string);
        assert_eq!(resource.as_deref(), expected);
    }

    #[rstest]
    #[case::override_first("nodes", "instance")]
    #[case::template("pods", "k8s__pod")]
    #[case::group_is_sanitized("ingresses.networking.k8s.io", "k8s_networking_k8s_io_ingress")]
    fn resources_have_a_label(#[case] resource: &str, #[case] expected: &str) {
        let labels = labels("k8s_<<.Group>>_<<.Resource>>", &[("instance", "node")]).unwrap();
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let label = labels.label(&GroupResource::new(group, resource), &resources());
        assert_eq!(label.unwrap(), expected);
    }

    #[test]
    fn resource_without_override_and_template_has_no_label() {
        let labels = labels("", &[("instance", "node")]).unwrap();
        let error = labels.label(&GroupResource::pods(), &resources()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unable to convert resource pods into label: no generic resource label form \
             specified for this metric"
        );
    }

    #[test]
    fn first_of_two_labels_for_a_resource_is_used() {
        let labels = labels("", &[("node", "node"), ("instance", "nodes")]).unwrap();
        assert_eq!(labels.label(&GroupResource::nodes(), &resources()).unwrap(), "node");
        assert_eq!(labels.ambiguous().len(), 1);
        assert_eq!(labels.ambiguous()[0].unused, "instance");
    }

    #[rstest]
    #[case::no_resource("x", "must include at least `{{.Resource}}` in the label template")]
    #[case::empty("<<if false>>x<<end>>", "matcher: empty template")]
    #[case::no_regex("<<.Resource>>(", "missing closing ): `^(?P<resource>.+?)($`")]
    #[case::unknown_field("<<.Kind>>", "can't evaluate field Kind in type schema.GroupResource")]
    #[case::syntax("<<.Resource", "template: resource-label:1: unclosed action")]
    fn invalid_templates_are_refused(#[case] template: &str, #[case] expected: &str) {
        let error = labels(template, &[]).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}
