//! What is proven about the operands of an expression.

/// What is proven about an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It doesn't depend on the objects.
    Constant,
    /// It reads each object on its own, and each sample has the label with the object's name.
    PerObject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    /// Samples, or ranges of samples.
    Vector,
    Text,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Operand<'q> {
    pub(super) class: Class,
    pub(super) kind: Kind,
    /// The content of a text.
    pub(super) text: &'q str,
}

impl Operand<'_> {
    pub(super) fn new(class: Class, kind: Kind) -> Self {
        Self { class, kind, text: "" }
    }
}
