//! The functions that expressions can call. Each has one argument.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{
        DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig,
        general_purpose::{STANDARD as PADDED, STANDARD_NO_PAD},
    },
};

use crate::jsonpath::{
    Compat,
    error::EvalError,
    math,
    operands::Evaluation,
    value::{Type, Value},
};

/// A function by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Math(&'static str, fn(f64) -> f64),
    Other(&'static str),
}

/// The names of functions that are not in `math`.
const OTHERS: [&str; 26] = [
    "pow10",
    "length",
    "size",
    "factorial",
    "avg",
    "b64decode",
    "b64encoden",
    "b64encode",
    "sum",
    "not",
    "rand",
    "randint",
    "last",
    "first",
    "parent",
    "root",
    "key",
    "is_null",
    "is_numeric",
    "is_int",
    "is_uint",
    "is_float",
    "is_string",
    "is_bool",
    "is_array",
    "is_object",
];

/// As in Go, the decoders accept trailing bits. `convert_base64` removes line breaks first.
const DECODER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);
const DECODER_NO_PAD: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

impl Function {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let other = OTHERS.into_iter().find(|other| *other == name).map(Self::Other);
        other.or_else(|| {
            math::find_function(name).map(|(name, function)| Self::Math(name, function))
        })
    }
}

impl Evaluation<'_> {
    pub(crate) fn call(self, function: Function, value: &Value) -> Result<Value, EvalError> {
        let document = self.document;
        let name = match function {
            Function::Math(name, function) => {
                let number = self.number(name, value)?;
                return Ok(Value::Number(Some(function(number))));
            }
            Function::Other(name) => name,
        };
        let children = value.children(document);
        let value_type = value.value_type(document);
        let is_array = value_type == Type::Array;
        let type_is = |expected| {
            if value.is_missing() { Value::Null } else { Value::Bool(value_type == expected) }
        };
        Ok(match name {
            "is_null" => type_is(Type::Null),
            "is_numeric" => type_is(Type::Number),
            "is_string" => type_is(Type::Text),
            "is_bool" => type_is(Type::Bool),
            "is_array" => type_is(Type::Array),
            "is_object" => type_is(Type::Object),
            "is_int" | "is_uint" | "is_float" if value.is_missing() => Value::Null,
            "is_int" => Value::Bool(self.integer(name, value).is_ok()),
            "is_uint" => Value::Bool(self.unsigned(name, value).is_ok()),
            "is_float" => {
                let is_number = value_type == Type::Number;
                Value::Bool(is_number && self.integer(name, value).is_err())
            }
            "not" => Value::Bool(!self.is_true(value)?),
            "length" => self.length(value),
            "size" => Value::Number(Some(children.len() as f64)),
            "first" if is_array => children.get(0).unwrap_or(Value::Null),
            "last" if is_array => {
                let last = children.len().checked_sub(1).and_then(|last| children.get(last));
                last.unwrap_or(Value::Null)
            }
            "parent" => value.parent(document).unwrap_or(Value::Null),
            "root" if !value.is_missing() => value.root(),
            "key" => self.key_of(value)?,
            "sum" | "avg" => return self.sum_or_mean(name, value),
            "pow10" | "factorial" if value.is_missing() => Value::Number(None),
            "pow10" => Value::Number(Some(math::power_of_ten(self.integer(name, value)?))),
            "factorial" => factorial(self.unsigned(name, value)?, self.budget.compat)?,
            "b64decode" | "b64encode" | "b64encoden" => {
                return self.convert_base64(name, value);
            }
            "rand" | "randint" => {
                let problem = "is not supported, because a metric must not be random";
                return Err(EvalError::new(format!("{name} {problem}")));
            }
            _ => Value::Null,
        })
    }

    /// The number of elements of an array, or of bytes of a string. 0 for a missing value, and 1
    /// for other values.
    pub(crate) fn length(self, value: &Value) -> Value {
        let length = match value.value_type(self.document) {
            _ if value.is_missing() => 0,
            Type::Array => value.children(self.document).len(),
            Type::Text => value.as_text(self.document).map_or(0, <[u8]>::len),
            _ => 1,
        };
        Value::Number(Some(length as f64))
    }

    fn key_of(self, value: &Value) -> Result<Value, EvalError> {
        let (Some(parent), Some(node)) = (value.parent(self.document), value.node()) else {
            return Ok(Value::Null);
        };
        let siblings = parent.children(self.document);
        // The steps of the search through the siblings.
        self.budget.spend(siblings.len() / 8)?;
        let Some(key) = siblings.key_of(node) else { return Ok(Value::Null) };
        self.budget.spend_text(key.len())?;
        Ok(Value::text(key))
    }

    fn sum_or_mean(self, name: &'static str, value: &Value) -> Result<Value, EvalError> {
        if !value.is_container(self.document) {
            return Ok(match value.value_type(self.document) {
                Type::Number => Value::Number(Some(self.number(name, value)?)),
                _ => Value::Null,
            });
        }
        let children = value.children(self.document);
        self.budget.spend(children.len())?;
        let mut sum = 0.0;
        for child in children.iter() {
            sum += self.number(name, &child)?;
        }
        let is_mean = name == "avg" && children.len() > 0;
        Ok(Value::Number(Some(if is_mean { sum / children.len() as f64 } else { sum })))
    }

    fn convert_base64(self, name: &'static str, value: &Value) -> Result<Value, EvalError> {
        let Some(text) = value.as_text(self.document) else { return Ok(Value::Null) };
        self.budget.spend(text.len() / 16)?;
        self.budget.spend_text(text.len().saturating_mul(2))?;
        let result = match name {
            "b64encode" => PADDED.encode(text).into_bytes(),
            "b64encoden" => STANDARD_NO_PAD.encode(text).into_bytes(),
            _ => {
                let text: Vec<u8> =
                    text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
                let decoded = DECODER.decode(&text).or_else(|_| DECODER_NO_PAD.decode(&text));
                decoded.map_err(|_| EvalError::new("invalid base64"))?
            }
        };
        Ok(Value::text(&result))
    }
}

fn factorial(number: u64, compat: Compat) -> Result<Value, EvalError> {
    // The reference crashes with a stack overflow for large numbers, and overflows above 20.
    let largest = if compat == Compat::Off { 20 } else { 1_000_000 };
    if number > largest {
        return Err(EvalError::new("the result of factorial is too large"));
    }
    Ok(Value::Number(Some(math::wrapping_factorial(number) as f64)))
}
