//! From a request to a query.

mod matchers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hpa_calc::Selector;

use crate::rules::{
    compat::Compat,
    labels::{LabelError, ResourceLabels},
    shape::{self, NotPerObject},
};
use hpa_go_compat::template::{Struct, Template, TemplateError, Value};
use hpa_metrics::resource::{ApiResources, GroupResource};
use matchers::Matchers;

/// The template of a rule's query.
#[derive(Debug)]
pub struct QueryTemplate(Template);

/// Why there is no query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The resource, or the namespace, has no label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The selector has `<` or `>`, which Prometheus doesn't have for labels.
    #[error("operator not supported by prometheus")]
    UnsupportedOperator,
    /// The template can't be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The template renders nothing.
    #[error("empty query produced by metrics query template")]
    Empty,
}

/// Objects whose metric is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// Their resource.
    pub resource: &'a GroupResource,
    /// Their namespace. It is empty for objects without one.
    pub namespace: &'a str,
    /// Their names.
    pub names: &'a [String],
}

/// What the queries of a rule depend on.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The labels of the rule.
    pub labels: &'a ResourceLabels,
    /// The resources of the API.
    pub resources: &'a ApiResources,
    /// How to escape names and values in regular expressions.
    pub compat: Compat,
}

impl QueryTemplate {
    /// Parses a template.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        Template::parse("metrics-query", text).map(Self)
    }

    /// The template's text.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The query for a metric of objects, by name of the object. `extra_labels` are further labels
    /// to group by.
    pub fn for_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: Context<'_>,
    ) -> Result<String, QueryError> {
        self.select(series, objects, selector, extra_labels, context, |matchers, label| {
            matchers.add_names(label, objects.names);
        })
    }

    /// The query for a metric of all objects that have a name, whatever `objects.names` are.
    pub fn for_all_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: Context<'_>,
    ) -> Result<String, QueryError> {
        self.select(series, objects, selector, extra_labels, context, Matchers::add_any_name)
    }

    /// Whether a query for several objects reads each of them as a query for one.
    pub fn check_per_object(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: Context<'_>,
    ) -> Result<(), NotPerObject> {
        let label = context.labels.label(objects.resource, context.resources);
        let label = label.map_err(|_| NotPerObject::NoQuery)?;
        shape::check_template(&self.0, &label)?;
        // Names stand in place of the marker only.
        let without = self.for_all_objects(series, objects, selector, extra_labels, context);
        if without.map_err(|_| NotPerObject::NoQuery)?.contains(shape::MARKER) {
            return Err(NotPerObject::NameElsewhere);
        }
        let objects = Objects { names: &[shape::MARKER.to_owned()], ..objects };
        let query = self.for_objects(series, objects, selector, extra_labels, context);
        shape::check_query(&query.map_err(|_| NotPerObject::NoQuery)?, &label)
    }

    fn select(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: Context<'_>,
        add_names: impl Fn(&mut Matchers, &str),
    ) -> Result<String, QueryError> {
        let Context { labels, resources, compat } = context;
        let mut matchers = Matchers::new(compat);
        matchers.add_selector(selector)?;
        if !objects.namespace.is_empty() {
            let label = labels.label(&GroupResource::namespaces(), resources)?;
            matchers.add_equal(&label, objects.namespace);
        }
        let label = labels.label(objects.resource, resources)?;
        add_names(&mut matchers, &label);
        let mut group_by = vec![label.as_str()];
        group_by.extend(extra_labels);
        self.render(series, matchers, &group_by)
    }

    /// The query for an external metric. If the namespace is not empty, the rule must have a label
    /// for it.
    pub fn for_external(
        &self,
        series: &str,
        namespace: &str,
        selector: &Selector,
        context: Context<'_>,
    ) -> Result<String, QueryError> {
        let mut matchers = Matchers::new(context.compat);
        matchers.add_selector(selector)?;
        if !namespace.is_empty() {
            let label = context.labels.label(&GroupResource::namespaces(), context.resources)?;
            matchers.add_equal(&label, namespace);
        }
        self.render(series, matchers, &[])
    }

    fn render(
        &self,
        series: &str,
        matchers: Matchers,
        group_by: &[&str],
    ) -> Result<String, QueryError> {
        let (matchers, values): (String, BTreeMap<String, String>) = matchers.finish();
        let data = Struct {
            type_name: "naming.queryTemplateArgs",
            fields: vec![
                ("Series", Value::text(series)),
                ("LabelMatchers", Value::text(&matchers)),
                ("LabelValuesByName", Value::Map(values.into())),
                ("GroupBy", Value::text(&group_by.join(","))),
                ("GroupBySlice", Value::list(group_by)),
            ],
            string: None,
        };
        let query = self.0.render(Value::Struct(data.into()))?;
        if query.is_empty() { Err(QueryError::Empty) } else { Ok(query) }
    }
}
