//! Operands, fields and function calls.

use super::{Execution, Result};
use crate::template::{
    ast::{Number, Operand, Term},
    functions::{self, Arguments, Expected},
    value::Value,
};

impl Execution<'_> {
    /// Evaluates an operand that has no arguments.
    pub(super) fn operand(&mut self, dot: &Value, operand: &Operand) -> Result<Value> {
        let Operand { at, term } = operand;
        match term {
            Term::Dot => Ok(dot.clone()),
            Term::Nil => Ok(Value::Missing),
            Term::Bool(value) => Ok(Value::Bool(*value)),
            Term::Text { text, .. } => Ok(Value::text(text)),
            Term::Number { text, number } => {
                self.at(*at, text);
                match number {
                    Number::Int(value) => Ok(Value::Int(*value)),
                    Number::Float(value) => Ok(Value::Float(*value)),
                    Number::Overflow => self.error(format!("{text} overflows int")),
                }
            }
            Term::Variable(name, fields) if fields.is_empty() => {
                self.at(*at, term);
                self.variable(name)
            }
            Term::Field(_) | Term::Variable(..) | Term::Chain(..) => {
                self.fields(dot, operand, false)
            }
            Term::Function(name) => {
                self.at(*at, name);
                self.function(dot, name, name.clone(), &[], None)
            }
            Term::Pipeline(pipeline) => self.pipeline(dot, pipeline),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Result<Value> {
        match self.variables.iter().rev().find(|(declared, _)| declared == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.error(format!("undefined variable: {name}")),
        }
    }

    /// Evaluates a chain of fields.
    pub(super) fn fields(
        &mut self,
        dot: &Value,
        operand: &Operand,
        has_arguments: bool,
    ) -> Result<Value> {
        let Operand { at, term } = operand;
        self.at(*at, term);
        let (mut value, fields) = match term {
            Term::Field(fields) => (dot.clone(), fields),
            Term::Variable(name, fields) => (self.variable(name)?, fields),
            Term::Chain(inner, _) if matches!(inner.term, Term::Nil) => {
                return self.error(format!("indirection through explicit nil in {term}"));
            }
            Term::Chain(inner, fields) => (self.operand(dot, inner)?, fields),
            _ => return self.operand(dot, operand),
        };
        for (index, field) in fields.iter().enumerate() {
            let is_last = index + 1 == fields.len();
            value = self.field(&value, field, has_arguments && is_last)?;
        }
        Ok(value)
    }

    fn field(&mut self, value: &Value, name: &str, has_arguments: bool) -> Result<Value> {
        match value {
            Value::Missing => return Ok(Value::Missing),
            Value::Map(_) if has_arguments => {
                return self.error(format!("{name} is not a method but has arguments"));
            }
            Value::Map(entries) => {
                return Ok(entries.get(name).map_or(Value::Missing, |entry| Value::text(entry)));
            }
            Value::Struct(data) => {
                if let Some(string) = data.string.as_ref().filter(|_| name == "String") {
                    if has_arguments {
                        return self.error("wrong number of args for String: want 0 got 1");
                    }
                    return Ok(Value::Text(string.clone()));
                }
                if let Some((_, field)) = data.fields.iter().find(|(own, _)| *own == name) {
                    if has_arguments {
                        let problem = "has arguments but cannot be invoked as function";
                        return self.error(format!("{name} {problem}"));
                    }
                    return Ok(field.clone());
                }
            }
            _ => {}
        }
        self.error(format!("can't evaluate field {name} in type {}", value.type_name()))
    }

    pub(super) fn function(
        &mut self,
        dot: &Value,
        name: &str,
        node: String,
        arguments: &[Operand],
        piped: Option<Value>,
    ) -> Result<Value> {
        let at = self.node.0;
        let given = arguments.len() + usize::from(piped.is_some());
        if let Err(message) = functions::check_count(name, arguments.len(), given) {
            return self.error(message);
        }
        if matches!(name, "and" | "or") {
            return self.short_circuit(dot, name == "or", arguments, piped);
        }
        let mut values = Vec::with_capacity(given);
        for argument in arguments {
            let expected = functions::expected(name, values.len());
            values.push(self.argument(dot, argument, expected)?);
        }
        if let Some(value) = piped {
            let expected = functions::expected(name, values.len());
            values.push(self.check_type(value, expected)?);
        }
        let callee = arguments.first().map(|argument| argument.term.to_string());
        let arguments = Arguments { values: &values, callee: callee.as_deref() };
        functions::call(name, &arguments).or_else(|message| {
            self.node = (at, node);
            self.error(format!("error calling {name}: {message}"))
        })
    }

    /// `and` and `or` don't evaluate what doesn't matter.
    fn short_circuit(
        &mut self,
        dot: &Value,
        stops_at: bool,
        arguments: &[Operand],
        piped: Option<Value>,
    ) -> Result<Value> {
        let mut last = Value::Missing;
        for argument in arguments {
            last = self.argument(dot, argument, Expected::Any)?;
            if last.is_true() == stops_at {
                return Ok(last);
            }
        }
        Ok(piped.unwrap_or(last))
    }

    fn argument(&mut self, dot: &Value, operand: &Operand, expected: Expected) -> Result<Value> {
        self.at(operand.at, &operand.term);
        let term = &operand.term;
        let is_literal = matches!(term, Term::Bool(_) | Term::Number { .. });
        match (expected, term) {
            (Expected::Text, Term::Nil) => return self.error("cannot assign nil to string"),
            (Expected::Text, _) if is_literal => {
                return self.error(format!("expected string; found {term}"));
            }
            _ => {}
        }
        let value = self.operand(dot, operand)?;
        self.check_type(value, expected)
    }

    fn check_type(&self, value: Value, expected: Expected) -> Result<Value> {
        match (expected, &value) {
            (Expected::Any, _) | (Expected::Text, Value::Text(_)) => Ok(value),
            (Expected::Text, Value::Missing) => self.error("invalid value; expected string"),
            (Expected::Text, _) => {
                let got = value.type_name();
                self.error(format!("wrong type for value; expected string; got {got}"))
            }
        }
    }
}
