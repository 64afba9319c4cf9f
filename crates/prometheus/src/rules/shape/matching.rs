//! Binary operators.

use super::{
    NotPerObject,
    operand::{Class, Kind, Operand},
};

/// The modifiers of a binary operator.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching<'q> {
    /// `on`, or else `ignoring`. Without either, all labels match.
    pub(super) is_on: bool,
    /// The labels of `on` or `ignoring`.
    pub(super) labels: Vec<&'q str>,
    /// The operand of which several series can match one.
    pub(super) many: Option<Side>,
    /// The labels of `group_left` or `group_right`.
    pub(super) include: Vec<&'q str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// What an expression `left operator right` is.
pub(super) fn binary<'q>(
    operator: &str,
    matching: &Matching<'_>,
    left: &Operand<'q>,
    right: &Operand<'q>,
    label: &str,
) -> Result<Operand<'q>, NotPerObject> {
    let kind = match (left.kind, right.kind) {
        (Kind::Scalar, Kind::Scalar) => Kind::Scalar,
        _ => Kind::Vector,
    };
    if (left.class, right.class) == (Class::Constant, Class::Constant) {
        return Ok(Operand::new(Class::Constant, kind));
    }
    let per_object = Ok(Operand::new(Class::PerObject, kind));
    let set = ["and", "or", "unless"].into_iter().find(|set| operator.eq_ignore_ascii_case(set));
    // A scalar is constant: it applies to each sample of the other operand.
    let has_scalar = left.kind == Kind::Scalar || right.kind == Kind::Scalar;
    if has_scalar {
        return if set.is_none() { per_object } else { Err(operand(operator)) };
    }
    // Matched series have the same object.
    let by_object = matching.labels.contains(&label) == matching.is_on;
    let is_proven = match (set, left.class, right.class) {
        (Some("or"), Class::PerObject, Class::PerObject) => by_object,
        // All of the constant operand that matches nothing.
        (Some("or"), ..) | (Some("unless"), Class::Constant, _) => return Err(operand(operator)),
        // Which samples of `left` stay depends on the constant operand only.
        (Some(_), Class::PerObject, Class::Constant) => true,
        (Some(_), ..) => by_object,
        (None, ..) => by_object || joins_constant(matching, left, right, label),
    };
    if is_proven { per_object } else { Err(other_objects(operator, label)) }
}

/// Whether one operand is constant, and the other one gives the result its label.
fn joins_constant(
    matching: &Matching<'_>,
    left: &Operand<'_>,
    right: &Operand<'_>,
    label: &str,
) -> bool {
    let (many, one) = match matching.many {
        None => return false,
        Some(Side::Left) => (left, right),
        Some(Side::Right) => (right, left),
    };
    match (many.class, one.class) {
        // Each sample keeps its labels, and finds its match whichever others there are.
        (Class::PerObject, Class::Constant) => !matching.include.contains(&label),
        // Each sample has at most one match, from which it takes the label.
        (Class::Constant, Class::PerObject) => matching.include.contains(&label),
        _ => false,
    }
}

fn operand(operator: &str) -> NotPerObject {
    NotPerObject::Operand(operator.to_owned())
}

fn other_objects(operator: &str, label: &str) -> NotPerObject {
    NotPerObject::Matching { operator: operator.to_owned(), label: label.to_owned() }
}
