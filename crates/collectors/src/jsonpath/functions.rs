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

/// The implementation of a function. The name is for errors, and distinguishes functions with the
/// same implementation.
type Implementation = fn(Evaluation<'_>, &'static str, &Value) -> Result<Value, EvalError>;

/// A function by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Math(&'static str, fn(f64) -> f64),
    Other(&'static str, Implementation),
}

/// The functions that are not in `math`.
const OTHERS: [(&str, Implementation); 26] = [
    ("avg", |this, name, value| this.sum_or_mean(name, value)),
    ("sum", |this, name, value| this.sum_or_mean(name, value)),
    ("b64decode", |this, name, value| this.convert_base64(name, value)),
    ("b64encode", |this, name, value| this.convert_base64(name, value)),
    ("b64encoden", |this, name, value| this.convert_base64(name, value)),
    ("factorial", |this, name, value| this.factorial(name, value)),
    ("pow10", |this, name, value| this.power_of_ten(name, value)),
    ("rand", |_, name, _| refuse_random_number(name)),
    ("randint", |_, name, _| refuse_random_number(name)),
    ("not", |this, _, value| Ok(Value::Bool(!this.is_true(value)?))),
    ("length", |this, _, value| Ok(this.length(value))),
    ("size", |this, _, value| Ok(Value::Number(Some(value.children(this.document).len() as f64)))),
    ("first", |this, _, value| Ok(this.element_of(value, |_| Some(0)))),
    ("last", |this, _, value| Ok(this.element_of(value, |length| length.checked_sub(1)))),
    ("parent", |this, _, value| Ok(value.parent(this.document).unwrap_or(Value::Null))),
    ("root", |_, _, value| Ok(if value.is_missing() { Value::Null } else { value.root() })),
    ("key", |this, _, value| this.key_of(value)),
    ("is_null", |this, _, value| Ok(this.has_type(value, Type::Null))),
    ("is_numeric", |this, _, value| Ok(this.has_type(value, Type::Number))),
    ("is_string", |this, _, value| Ok(this.has_type(value, Type::Text))),
    ("is_bool", |this, _, value| Ok(this.has_type(value, Type::Bool))),
    ("is_array", |this, _, value| Ok(this.has_type(value, Type::Array))),
    ("is_object", |this, _, value| Ok(this.has_type(value, Type::Object))),
    ("is_int", |this, name, value| Ok(type_test(value, this.integer(name, value).is_ok()))),
    ("is_uint", |this, name, value| Ok(type_test(value, this.unsigned(name, value).is_ok()))),
    ("is_float", |this, name, value| {
        let is_number = value.value_type(this.document) == Type::Number;
        Ok(type_test(value, is_number && this.integer(name, value).is_err()))
    }),
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
        let other = OTHERS.into_iter().find(|(other, _)| *other == name);
        other.map(|(name, implementation)| Self::Other(name, implementation)).or_else(|| {
            math::find_function(name).map(|(name, function)| Self::Math(name, function))
        })
    }
}

impl Evaluation<'_> {
    pub(crate) fn call(self, function: Function, value: &Value) -> Result<Value, EvalError> {
        match function {
            Function::Math(name, function) => {
                Ok(Value::Number(Some(function(self.number(name, value)?))))
            }
            Function::Other(name, implementation) => implementation(self, name, value),
        }
    }

    fn has_type(self, value: &Value, expected: Type) -> Value {
        type_test(value, value.value_type(self.document) == expected)
    }

    /// The element of an array whose index `index` returns for the length. Null if there is none,
    /// or if the value is not an array.
    fn element_of(self, value: &Value, index: impl FnOnce(usize) -> Option<usize>) -> Value {
        let children = value.children(self.document);
        let is_array = value.value_type(self.document) == Type::Array;
        let index = index(children.len()).filter(|_| is_array);
        index.and_then(|index| children.get(index)).unwrap_or(Value::Null)
    }

    fn power_of_ten(self, name: &'static str, value: &Value) -> Result<Value, EvalError> {
        if value.is_missing() {
            return Ok(Value::Number(None));
        }
        Ok(Value::Number(Some(math::power_of_ten(self.integer(name, value)?))))
    }

    fn factorial(self, name: &'static str, value: &Value) -> Result<Value, EvalError> {
        if value.is_missing() {
            return Ok(Value::Number(None));
        }
        let number = self.unsigned(name, value)?;
        // ajson crashes with a stack overflow for large numbers, and overflows above 20.
        let largest = if self.budget.compat == Compat::Off { 20 } else { 1_000_000 };
        if number > largest {
            return Err(EvalError::new("the result of factorial is too large"));
        }
        Ok(Value::Number(Some(math::wrapping_factorial(number) as f64)))
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

/// The result of a test of the type. Null for a missing value.
fn type_test(value: &Value, is_of_type: bool) -> Value {
    if value.is_missing() { Value::Null } else { Value::Bool(is_of_type) }
}

fn refuse_random_number(name: &str) -> Result<Value, EvalError> {
    Err(EvalError::new(format!("{name} is not supported, because a metric must not be random")))
}
