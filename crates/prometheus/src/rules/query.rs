//! Builds queries from a rule's template.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use hpa_calc::{
    Selector,
    go_text::Quoted,
    selector::{Operator, Requirement},
};

use crate::rules::{
    Compat,
    labels::{LabelError, ResourceLabels},
    per_object::{self, NotPerObject},
};
use hpa_go_compat::template::{Struct, Template, TemplateError, Value};
use hpa_metrics::resource::{ApiResources, GroupResource};

/// The template of a rule's query.
#[derive(Debug)]
pub struct QueryTemplate(Template);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The resource, or the namespace, has no label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The selector has `<` or `>`, which label matchers of Prometheus don't support.
    #[error("operator not supported by prometheus")]
    UnsupportedOperator,
    /// The template can't be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The template renders an empty string.
    #[error("empty query produced by metrics query template")]
    Empty,
}

/// The requested objects.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    pub resource: &'a GroupResource,
    /// Empty for cluster-scoped objects, or for objects of all namespaces.
    pub namespace: &'a str,
    pub names: &'a [String],
}

/// The inputs of a query that don't depend on the request.
#[derive(Clone, Copy, Debug)]
pub struct QueryContext<'a> {
    pub labels: &'a ResourceLabels,
    pub resources: &'a ApiResources,
    /// Determines whether dots in names and values are escaped in regular expressions.
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

    /// The query for a metric of objects, grouped by the object's name and `extra_labels`.
    pub fn for_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: QueryContext<'_>,
    ) -> Result<String, QueryError> {
        self.render_for_objects(
            series,
            objects,
            selector,
            extra_labels,
            context,
            |matchers, label| {
                matchers.add_names(label, objects.names);
            },
        )
    }

    /// The query for a metric of all objects of the namespace, or of all namespaces if it is empty.
    /// Selects series with any name in the objects' label, and ignores `objects.names`.
    pub fn for_all_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: QueryContext<'_>,
    ) -> Result<String, QueryError> {
        self.render_for_objects(
            series,
            objects,
            selector,
            extra_labels,
            context,
            Matchers::add_any_name,
        )
    }

    /// Checks that a query for several objects returns the same result for each of them as a query
    /// for that object alone.
    pub fn check_per_object(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: QueryContext<'_>,
    ) -> Result<(), NotPerObject> {
        let label = context.labels.label(objects.resource, context.resources);
        let label = label.map_err(|_| NotPerObject::NoQuery)?;
        per_object::check_template(&self.0, &label)?;
        // A query without the name must not contain the marker by chance.
        let unnamed = self.for_all_objects(series, objects, selector, extra_labels, context);
        if unnamed.map_err(|_| NotPerObject::NoQuery)?.contains(per_object::MARKER) {
            return Err(NotPerObject::NameElsewhere);
        }
        let objects = Objects { names: &[per_object::MARKER.to_owned()], ..objects };
        let query = self.for_objects(series, objects, selector, extra_labels, context);
        per_object::check_query(&query.map_err(|_| NotPerObject::NoQuery)?, &label)
    }

    /// Renders a query for objects. `add_names` adds a matcher for the label with their names.
    fn render_for_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
        extra_labels: &[&str],
        context: QueryContext<'_>,
        add_names: impl Fn(&mut Matchers, &str),
    ) -> Result<String, QueryError> {
        let QueryContext { labels, resources, compat } = context;
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
        context: QueryContext<'_>,
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

/// Label matchers in the order in which they are added.
struct Matchers {
    compat: Compat,
    expressions: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Matchers {
    fn new(compat: Compat) -> Self {
        Self { compat, expressions: Vec::new(), values: BTreeMap::new() }
    }

    /// The matchers, separated by commas, and for each label the values of its last matcher,
    /// separated by bars.
    fn finish(self) -> (String, BTreeMap<String, String>) {
        (self.expressions.join(","), self.values)
    }

    fn add_equal(&mut self, label: &str, value: &str) {
        self.add(label, "=", value.to_owned());
    }

    /// Selects objects by name. No names select series without the label.
    fn add_names(&mut self, label: &str, names: &[String]) {
        match names {
            [name] => self.add_equal(label, name),
            [] => self.add_equal(label, ""),
            names => {
                let names = self.alternatives(names.iter().map(String::as_str));
                self.add(label, "=~", names);
            }
        }
    }

    /// Selects all objects.
    fn add_any_name(&mut self, label: &str) {
        self.add(label, "!=", String::new());
    }

    fn add_selector(&mut self, selector: &Selector) -> Result<(), QueryError> {
        selector.requirements().iter().try_for_each(|requirement| self.add_requirement(requirement))
    }

    fn add_requirement(&mut self, requirement: &Requirement) -> Result<(), QueryError> {
        let mut values: Vec<&str> = requirement.values().collect();
        values.dedup();
        let is_one = values.len() == 1;
        let matcher = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals if is_one => "=",
            Operator::NotEquals if is_one => "!=",
            Operator::Equals | Operator::DoubleEquals | Operator::In => "=~",
            Operator::NotEquals | Operator::NotIn => "!~",
            Operator::Exists => "!=",
            Operator::DoesNotExist => "=",
            Operator::GreaterThan | Operator::LessThan => {
                return Err(QueryError::UnsupportedOperator);
            }
        };
        let value = match matcher {
            "=~" | "!~" => self.alternatives(values),
            _ => values.join("|"),
        };
        self.add(requirement.key(), matcher, value);
        Ok(())
    }

    /// A regular expression for any of the values. Without compatibility, dots are escaped as
    /// `[.]`: a template that puts a value into quotes doesn't escape a backslash.
    fn alternatives<'v>(&self, values: impl IntoIterator<Item = &'v str>) -> String {
        let escaped = |value: &'v str| match self.compat {
            Compat::Off if value.contains('.') => Cow::Owned(value.replace('.', "[.]")),
            _ => Cow::Borrowed(value),
        };
        values.into_iter().map(escaped).collect::<Vec<_>>().join("|")
    }

    fn add(&mut self, label: &str, operator: &str, value: String) {
        self.expressions.push(format!("{label}{operator}{}", Quoted(&value)));
        self.values.insert(label.to_owned(), value);
    }
}
