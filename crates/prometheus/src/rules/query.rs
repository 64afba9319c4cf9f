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

/// Whether the template of a query uses the namespace or the names of the requested objects.
pub fn selects_objects(template: &str) -> bool {
    ["LabelMatchers", "LabelValuesByName"].iter().any(|field| template.contains(field))
}

/// An example of the queries that a rule's template makes for a series. A matcher or a name
/// replaces each action except `.Series`.
pub fn example_query(template: &str, series: &str) -> String {
    let mut parts = template.split("<<");
    let mut query = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (action, text) = part.split_once(">>").unwrap_or((part, ""));
        query.push_str(match action.trim() {
            ".Series" => series,
            action if action.contains(".LabelMatchers") => "x=\"x\"",
            _ => "x",
        });
        query.push_str(text);
    }
    query
}

/// A query or a message about one, with single spaces instead of line breaks and indentation.
pub fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The requested objects.
#[derive(Clone, Copy, Debug)]
pub struct QueriedObjects<'a> {
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

    /// The query for an external metric. If the namespace is not empty, the rule must have a label
    /// for it.
    pub fn for_external(
        &self,
        series: &str,
        namespace: &str,
        selector: &Selector,
        context: QueryContext<'_>,
    ) -> Result<String, QueryError> {
        let matchers = Matchers::new(context, namespace, selector)?;
        self.render(series, matchers, &[])
    }

    fn render(
        &self,
        series: &str,
        matchers: Matchers,
        group_by: &[&str],
    ) -> Result<String, QueryError> {
        let Matchers { expressions, values, .. } = matchers;
        let data = Struct {
            type_name: "naming.queryTemplateArgs",
            fields: vec![
                ("Series", Value::text(series)),
                ("LabelMatchers", Value::text(&expressions.join(","))),
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

/// A query for a metric of objects, grouped by the label with their names.
#[derive(Clone, Copy, Debug)]
pub struct ObjectQuery<'a> {
    pub template: &'a QueryTemplate,
    pub series: &'a str,
    pub objects: QueriedObjects<'a>,
    pub selector: &'a Selector,
    /// A further label to group by.
    pub extra_label: Option<&'a str>,
    pub context: QueryContext<'a>,
}

impl ObjectQuery<'_> {
    /// The query for the objects with these names.
    pub fn render(&self) -> Result<String, QueryError> {
        self.render_with(|matchers, label| matchers.add_names(label, self.objects.names))
    }

    /// The query for all objects of the namespace, or of all namespaces if it is empty. Selects
    /// series with any name in the objects' label.
    pub fn render_for_all(&self) -> Result<String, QueryError> {
        self.render_with(Matchers::add_any_name)
    }

    /// [`Self::render_for_all`], if it returns the same result for each object as a query for that
    /// object alone. Fails if this can't be proven.
    pub fn render_for_all_if_per_object(&self) -> Result<String, NotPerObject> {
        let QueryContext { labels, resources, .. } = self.context;
        let label = labels.label(self.objects.resource, resources);
        let label = label.map_err(|_| NotPerObject::NoQuery)?;
        per_object::check_template(&self.template.0, &label)?;
        let for_all = self.render_for_all().map_err(|_| NotPerObject::NoQuery)?;
        // A query without the name must not contain the marker by chance.
        if for_all.contains(per_object::MARKER) {
            return Err(NotPerObject::NameElsewhere);
        }
        let objects = QueriedObjects { names: &[per_object::MARKER.to_owned()], ..self.objects };
        let for_marker = ObjectQuery { objects, ..*self }.render();
        per_object::check_query(&for_marker.map_err(|_| NotPerObject::NoQuery)?, &label)?;
        Ok(for_all)
    }

    /// [`Self::render_for_all_if_per_object`], but also fails without a namespace, because only
    /// queries of one namespace are shared.
    pub fn render_shared(&self) -> Result<String, NotPerObject> {
        if self.objects.namespace.is_empty() {
            return Err(NotPerObject::NoNamespace);
        }
        self.render_for_all_if_per_object()
    }

    /// Renders the template. `add_names` adds a matcher for the label with the objects' names.
    fn render_with(&self, add_names: impl Fn(&mut Matchers, &str)) -> Result<String, QueryError> {
        let QueryContext { labels, resources, .. } = self.context;
        let mut matchers = Matchers::new(self.context, self.objects.namespace, self.selector)?;
        let label = labels.label(self.objects.resource, resources)?;
        add_names(&mut matchers, &label);
        let mut group_by = vec![label.as_str()];
        group_by.extend(self.extra_label);
        self.template.render(self.series, matchers, &group_by)
    }
}

/// Label matchers in the order in which they are added.
struct Matchers {
    compat: Compat,
    expressions: Vec<String>,
    /// For each label, the values of its last matcher, separated by bars.
    values: BTreeMap<String, String>,
}

impl Matchers {
    /// Matchers for a selector and, unless it is empty, for a namespace.
    fn new(
        context: QueryContext<'_>,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Self, QueryError> {
        let QueryContext { labels, resources, compat } = context;
        let mut matchers = Self { compat, expressions: Vec::new(), values: BTreeMap::new() };
        for requirement in selector.requirements() {
            matchers.add_requirement(requirement)?;
        }
        if !namespace.is_empty() {
            let label = labels.label(&GroupResource::namespaces(), resources)?;
            matchers.add_equal(&label, namespace);
        }
        Ok(matchers)
    }

    fn add_equal(&mut self, label: &str, value: &str) {
        self.add(label, "=", value.to_owned());
    }

    /// Selects objects by name. Without names, selects the series that don't have the label.
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
    /// `[.]`, not as `\.`, because templates may quote values without escaping backslashes.
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
