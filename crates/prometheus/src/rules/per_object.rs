//! Decides whether a rule's query reads each object on its own. If so, one query for all objects of
//! a namespace has the same sample for an object as a query for that object alone.
//!
//! Let Q(N) be the query for the objects N, and L the label with their names. Q reads objects on
//! their own if, for each N, Q(N) is exactly the part of Q(all) whose label L is in N. The proof is
//! bottom-up: an expression is constant (it doesn't depend on N), has this property, or is unknown.
//! A query without a proof is not shared.
//!
//! The proof covers results, not failures: a query for all objects may fail because of one of them,
//! for example one with duplicate series. Single queries must be sent after a failure.

#[cfg(test)]
mod tests;

use hpa_go_compat::template::Template;

use crate::promql::{
    self, Expr, Grouping, Matching, Node, SET_OPERATORS, Selector, Side, SyntaxError, Type,
    depends_on_other_groups, is_by_series,
};

/// The name of the object in the checked query.
pub(crate) const MARKER: &str = "hpa-rs-object";

/// The reason why a query isn't proven to read each object on its own. `label` is the label with
/// the objects' names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotPerObject {
    #[error("the objects have no namespace, and only queries of one namespace are shared")]
    NoNamespace,
    #[error("the query can't be built")]
    NoQuery,
    /// The template may use the names outside of label matchers.
    #[error("the template does more than insert Series, LabelMatchers and GroupBy: {0}")]
    Template(String),
    #[error("functions remove the label `{0}` of the objects' names")]
    Label(String),
    #[error("the query isn't PromQL of Prometheus: {0}")]
    Syntax(#[from] SyntaxError),
    #[error("the query doesn't select objects: it has no <<.LabelMatchers>>")]
    NotSelected,
    #[error("the names of objects are used outside of selectors")]
    NameElsewhere,
    /// A group of an aggregation may have several objects.
    #[error("`{aggregation}` aggregates over objects, because it isn't grouped by `{label}`")]
    Aggregation { aggregation: String, label: String },
    /// A function or an aggregation whose result can depend on other objects.
    #[error("the result of `{0}` can depend on other objects")]
    Function(String),
    /// A function changes the label with the names of objects.
    #[error("`{function}` changes the label `{label}`")]
    Relabeled { function: String, label: String },
    /// A binary operator matches series of different objects.
    #[error(
        "`{operator}` can match series of different objects, because it doesn't match on `{label}`"
    )]
    Matching { operator: String, label: String },
    /// The result has samples that don't depend on the requested objects.
    #[error("the result of `{0}` contains samples that don't depend on the requested objects")]
    Operand(String),
}

/// Checks that a template uses the names of objects only in label matchers. `label` is the label
/// with the names.
pub(crate) fn check_template(template: &Template, label: &str) -> Result<(), NotPerObject> {
    let fields = ["Series", "LabelMatchers", "GroupBy"];
    let action = template.first_action_other_than_insertion(&fields, |key| key != label);
    action.map_or(Ok(()), |action| Err(NotPerObject::Template(action)))
}

/// Checks that a query for the object [`MARKER`] reads each object on its own. `label` is the label
/// with the objects' names.
pub(crate) fn check_query(query: &str, label: &str) -> Result<(), NotPerObject> {
    // Functions and operators can remove these labels.
    if ["__name__", "le"].contains(&label) {
        return Err(NotPerObject::Label(label.to_owned()));
    }
    let expr = promql::parse(query)?;
    let mut classifier = Classifier { label, selecting_matcher_count: 0 };
    let class = classifier.classify(&expr)?;
    let marker_count = query.matches(MARKER).count();
    if marker_count != 0 && classifier.selecting_matcher_count != marker_count {
        return Err(NotPerObject::NameElsewhere);
    }
    match class {
        Class::PerObject => Ok(()),
        Class::Constant => Err(NotPerObject::NotSelected),
    }
}

/// The proven property of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Doesn't depend on the objects.
    Constant,
    /// Reads each object on its own. Each sample has the label with the object's name.
    PerObject,
}

struct Classifier<'l> {
    /// The label with the objects' names.
    label: &'l str,
    /// The number of matchers that select the object [`MARKER`].
    selecting_matcher_count: usize,
}

impl Classifier<'_> {
    fn classify(&mut self, expr: &Expr<'_>) -> Result<Class, NotPerObject> {
        match &expr.node {
            Node::Number | Node::Text(_) => Ok(Class::Constant),
            Node::Selector(selector) => self.classify_selector(selector),
            // Ranges, subqueries, signs and parentheses change each series on its own, and keep the
            // label.
            Node::Wrapped(_, inner) => self.classify(inner),
            Node::Binary(operator, matching, operands) => {
                let [left, right] = &**operands;
                let classes = [self.classify(left)?, self.classify(right)?];
                let has_scalar = [left, right].iter().any(|operand| operand.result == Type::Scalar);
                self.classify_binary(operator, matching, classes, has_scalar)
            }
            Node::Call(_, arguments) | Node::Aggregation(_, _, arguments) => {
                let mut is_constant = true;
                for argument in arguments {
                    is_constant &= self.classify(argument)? == Class::Constant;
                }
                if is_constant { Ok(Class::Constant) } else { self.classify_call(expr) }
            }
        }
    }

    fn classify_selector(&mut self, selector: &Selector<'_>) -> Result<Class, NotPerObject> {
        let mut class = Class::Constant;
        for matcher in &selector.matchers {
            if matcher.value.contains(MARKER) {
                let selects = matcher.label == self.label && matcher.value == MARKER;
                if !selects || matcher.operator != "=" {
                    return Err(NotPerObject::NameElsewhere);
                }
                self.selecting_matcher_count += 1;
                class = Class::PerObject;
            }
        }
        Ok(class)
    }

    /// Classifies a function or an aggregation with an argument that isn't constant.
    fn classify_call(&self, expr: &Expr<'_>) -> Result<Class, NotPerObject> {
        match &expr.node {
            // This function removes only the labels `le` and `__name__`.
            Node::Call("histogram_quantile", _) => Ok(Class::PerObject),
            Node::Call(name @ ("label_replace" | "label_join"), arguments) => {
                // A text with escapes could still be the label.
                if let Some(Node::Text(target)) = arguments.get(1).map(|argument| &argument.node)
                    && *target != self.label
                    && !target.is_empty()
                    && !target.contains('\\')
                {
                    return Ok(Class::PerObject);
                }
                let (function, label) = ((*name).to_owned(), self.label.to_owned());
                Err(NotPerObject::Relabeled { function, label })
            }
            Node::Call(name, _) if is_by_series(name) => Ok(Class::PerObject),
            Node::Aggregation(name, grouping, _) if !depends_on_other_groups(name) => {
                if let Some(Grouping { is_by, labels }) = grouping
                    && labels.contains(&self.label) == *is_by
                {
                    return Ok(Class::PerObject);
                }
                let (aggregation, label) = ((*name).to_owned(), self.label.to_owned());
                Err(NotPerObject::Aggregation { aggregation, label })
            }
            Node::Call(name, _) | Node::Aggregation(name, ..) => {
                Err(NotPerObject::Function((*name).to_owned()))
            }
            // Other expressions have no arguments.
            Node::Number
            | Node::Text(_)
            | Node::Selector(_)
            | Node::Wrapped(..)
            | Node::Binary(..) => Ok(Class::Constant),
        }
    }

    fn classify_binary(
        &self,
        operator: &str,
        matching: &Matching<'_>,
        classes: [Class; 2],
        has_scalar: bool,
    ) -> Result<Class, NotPerObject> {
        if classes == [Class::Constant; 2] {
            return Ok(Class::Constant);
        }
        // A scalar is constant, and applies to each sample of the other operand.
        if has_scalar {
            return Ok(Class::PerObject);
        }
        let set_operator = SET_OPERATORS.into_iter().find(|set| operator.eq_ignore_ascii_case(set));
        // Whether matched series belong to the same object.
        let by_object = matching.labels.contains(&self.label) == matching.is_on;
        let is_proven = match (set_operator, classes) {
            (Some("or"), [Class::PerObject, Class::PerObject]) => by_object,
            // The result has all unmatched samples of the constant operand.
            (Some("or"), _) | (Some("unless"), [Class::Constant, _]) => {
                return Err(NotPerObject::Operand(operator.to_owned()));
            }
            // The constant operand alone decides which samples of the left operand stay.
            (Some(_), [Class::PerObject, Class::Constant]) => true,
            (Some(_), _) => by_object,
            (None, _) => by_object || self.joins_constant(matching, classes),
        };
        if is_proven {
            return Ok(Class::PerObject);
        }
        let (operator, label) = (operator.to_owned(), self.label.to_owned());
        Err(NotPerObject::Matching { operator, label })
    }

    /// Whether one operand is constant, and each sample of the result has the label of the other
    /// one.
    fn joins_constant(&self, matching: &Matching<'_>, [left, right]: [Class; 2]) -> bool {
        let (many, one) = match matching.many {
            None => return false,
            Some(Side::Left) => (left, right),
            Some(Side::Right) => (right, left),
        };
        match (many, one) {
            // Each sample keeps its labels, and matches independently of other samples.
            (Class::PerObject, Class::Constant) => !matching.include.contains(&self.label),
            // Each sample takes the label from its only match.
            (Class::Constant, Class::PerObject) => matching.include.contains(&self.label),
            _ => false,
        }
    }
}
