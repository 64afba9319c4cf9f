//! Whether the query of a rule reads each object on its own, so that one query for all objects of a
//! namespace has the same sample for an object as a query for that object.
//!
//! Let Q(N) be the query for a set of objects N, whose names the label L has. Q reads objects on
//! their own if Q(N) is exactly the part of Q(all) whose label L is a name in N, for each N. This
//! is proven bottom-up: an expression is either constant, which means that it doesn't depend on N,
//! or has this property, or nothing is known about it. Whatever isn't proven is not shared.
//!
//! The proof covers results. A query for all objects can fail where a query for one doesn't, for
//! example if another object has duplicate series, so failures of it must not be answers.

mod functions;
mod lexer;
mod matching;
mod operand;
mod parser;
#[cfg(test)]
mod tests;

use hpa_go_compat::template::Template;

/// Stands for the name of an object in the query that is checked.
pub(crate) const MARKER: &str = "hpa-rs-object";

/// Why it is not proven that a query reads each object on its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotPerObject {
    /// The objects have no namespace.
    #[error("the objects have no namespace, and only queries of one namespace are shared")]
    NoNamespace,
    /// The query can't be built.
    #[error("the query can't be built")]
    NoQuery,
    /// The template can depend on the names in another way than by label matchers.
    #[error("the template does more than to insert Series, LabelMatchers and GroupBy: {0}")]
    Template(String),
    /// The label with the names of objects is one that functions remove.
    #[error("functions remove the label `{0}` of the objects' names")]
    Label(String),
    /// The query is not PromQL, or has syntax that the check doesn't cover.
    #[error("the query has syntax that the check doesn't cover, at `{0}`")]
    Syntax(String),
    /// Nothing depends on the objects.
    #[error("the query doesn't select objects: it has no <<.LabelMatchers>>")]
    NotSelected,
    /// The names of objects occur somewhere else than in a selector.
    #[error("the names of objects are used outside of selectors")]
    NameElsewhere,
    /// An aggregation puts several objects into one group.
    #[error("`{aggregation}` aggregates over objects, because it isn't grouped by `{label}`")]
    Aggregation {
        /// The aggregation.
        aggregation: String,
        /// The label with the names of objects.
        label: String,
    },
    /// A function whose result can depend on other objects.
    #[error("the result of `{0}` can depend on other objects")]
    Function(String),
    /// A function changes the label with the names of objects.
    #[error("`{function}` changes the label `{label}`")]
    Relabeled {
        /// The function.
        function: String,
        /// The label with the names of objects.
        label: String,
    },
    /// A binary operator matches series of different objects.
    #[error("`{operator}` can match series of different objects, because not by `{label}`")]
    Matching {
        /// The operator.
        operator: String,
        /// The label with the names of objects.
        label: String,
    },
    /// The result has samples whatever objects are asked for.
    #[error("an operand of `{0}` is in the result whichever objects are asked for")]
    Operand(String),
}

/// Checks that a template uses the names of objects only by label matchers. `label` is that of the
/// names.
pub(crate) fn check_template(template: &Template, label: &str) -> Result<(), NotPerObject> {
    let action =
        template.first_action_beyond(&["Series", "LabelMatchers", "GroupBy"], |key| key != label);
    action.map_or(Ok(()), |action| Err(NotPerObject::Template(action)))
}

/// Checks a query for the object [`MARKER`]. `label` is that of the names.
pub(crate) fn check_query(query: &str, label: &str) -> Result<(), NotPerObject> {
    // Functions and operators remove these labels.
    if ["__name__", "le"].contains(&label) {
        return Err(NotPerObject::Label(label.to_owned()));
    }
    let tokens = lexer::tokens(query)?;
    parser::check(&tokens, label, query.matches(MARKER).count())
}
