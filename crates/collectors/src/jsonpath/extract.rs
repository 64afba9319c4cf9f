//! Extracts a number from a document.

use crate::jsonpath::{
    Compat, ExtractError, Limits,
    budget::Budget,
    document::Document,
    error::EvalError,
    operands::Evaluation,
    syntax::{Expression, Path},
    value::{NoNumber, Type, Value},
};

/// A path (`json-key`) or an expression (`json-eval`).
#[derive(Clone, Debug)]
pub struct Query(QueryKind);

#[derive(Clone, Debug)]
enum QueryKind {
    Key(Path),
    Expression(Expression),
}

impl Query {
    /// Parses a path (`json-key`).
    pub fn key(path: &str) -> Result<Self, ExtractError> {
        Path::parse(path.as_bytes(), 0).map(|path| Self(QueryKind::Key(path)))
    }

    /// Parses an expression (`json-eval`). As in ajson, invalid syntax is an error of the
    /// evaluation.
    pub fn expression(text: &str) -> Self {
        Self(QueryKind::Expression(Expression::parse(text.as_bytes(), 0)))
    }
}

/// Extracts a number from documents.
#[derive(Clone, Debug)]
pub struct Extractor {
    query: Query,
    aggregator: Option<Aggregator>,
    limits: Limits,
    compat: Compat,
}

impl Extractor {
    /// An extractor with the default limits. Without an aggregator, several numbers are an error.
    pub fn new(query: Query, aggregator: Option<Aggregator>) -> Self {
        Self { query, aggregator, limits: Limits::default(), compat: Compat::Off }
    }

    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Selects whether defects of ajson that can do harm are reproduced.
    #[must_use]
    pub fn with_compat(self, compat: Compat) -> Self {
        Self { compat, ..self }
    }

    /// Extracts a number from a document. It can be NaN or infinite.
    pub fn extract(&self, document: &[u8]) -> Result<f64, ExtractError> {
        let document = Document::parse(document, &self.limits)?;
        let budget = Budget::new(self.limits, self.compat);
        let evaluation = Evaluation { document: &document, budget: &budget };
        let root = Value::Node(Document::ROOT);
        let values = match &self.query.0 {
            QueryKind::Key(path) => evaluation.select_values(path, &root)?,
            QueryKind::Expression(expression) => vec![evaluation.evaluate(expression, &root)?],
        };
        match values.as_slice() {
            [] => Err(ExtractError::Empty),
            [only] if only.value_type(&document) == Type::Array => {
                self.aggregate(only.children(&document).iter(), &document)
            }
            [only] => self.single_number(only, &document),
            several => self.aggregate(several.iter().cloned(), &document),
        }
    }

    fn aggregate(
        &self,
        values: impl Iterator<Item = Value>,
        document: &Document,
    ) -> Result<f64, ExtractError> {
        let aggregator = self.aggregator.ok_or(ExtractError::NoAggregator)?;
        let numbers: Result<Vec<f64>, _> = values.map(|value| value.number(document)).collect();
        Ok(aggregator.apply(&numbers.map_err(|_| ExtractError::NotNumeric)?))
    }

    fn single_number(&self, value: &Value, document: &Document) -> Result<f64, ExtractError> {
        match (value.number(document), self.compat) {
            (Ok(number), _) => return Ok(number),
            (Err(NoNumber::TooLarge), Compat::Reference) => return Ok(0.0),
            (Err(NoNumber::TooLarge), Compat::Off) => return Err(ExtractError::TooLarge),
            (Err(NoNumber::OtherType), _) => {}
        }
        if value.is_missing() {
            return Err(EvalError::Missing.into());
        }
        Err(ExtractError::Type(match value.value_type(document) {
            Type::Bool => "a boolean",
            Type::Text => "a string",
            Type::Object => "an object",
            // The only value is neither a number nor an array here.
            Type::Null | Type::Number | Type::Array => "null",
        }))
    }
}

/// Combines several numbers into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregator {
    /// The mean. NaN if there are no numbers.
    Average,
    /// The smallest number. Infinity if there are no numbers.
    Minimum,
    /// The largest number. Negative infinity if there are no numbers.
    Maximum,
    Sum,
}

impl Aggregator {
    /// The aggregator of a name: `avg`, `min`, `max` or `sum`.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "avg" => Some(Self::Average),
            "min" => Some(Self::Minimum),
            "max" => Some(Self::Maximum),
            "sum" => Some(Self::Sum),
            _ => None,
        }
    }

    /// Combines the numbers in their order, which affects rounding. NaN is never the smallest or
    /// largest number.
    pub fn apply(self, numbers: &[f64]) -> f64 {
        let sum = || numbers.iter().fold(0.0, |sum, number| sum + number);
        match self {
            Self::Average => sum() / numbers.len() as f64,
            Self::Sum => sum(),
            Self::Minimum => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Maximum => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
