//! Renders templates, with the types and messages of Go's `text/template`.

use std::fmt::Display;

use hpa_calc::go_text::Quoted;

use super::{
    ExecutionError, MAX_NESTING, MAX_OUTPUT_LEN, MAX_STEPS, Template, TemplateError, Value,
    ast::{Branch, Command, Node, Offset, Operand, Pipeline, TemplateCall, Term},
    functions,
};

pub(super) fn execute(template: &Template, data: Value) -> Result<String, TemplateError> {
    let mut execution = Execution {
        template,
        definition: template.name.to_owned(),
        variables: vec![("$".to_owned(), data.clone())],
        output: String::new(),
        text_len: 0,
        depth: 0,
        steps: 0,
        node: (0, &""),
    };
    if let Some(nodes) = template.trees.get(template.name) {
        execution.render_nodes(&data, nodes)?;
    }
    Ok(execution.output)
}

struct Execution<'t> {
    template: &'t Template,
    /// The name of the definition that is being rendered.
    definition: String,
    /// The variables in scope, with their `$`. Later ones hide earlier ones.
    variables: Vec<(String, Value)>,
    output: String,
    /// The length of all texts that functions have returned.
    text_len: usize,
    /// The number of nested calls of templates.
    depth: usize,
    steps: usize,
    /// The node that is being evaluated, for errors.
    node: (Offset, &'t dyn Display),
}

type Result<T, E = TemplateError> = std::result::Result<T, E>;

impl<'t> Execution<'t> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        let (at, node) = &self.node;
        let text_before = self.template.text.get(..*at).unwrap_or_default();
        let line_start = text_before.rfind('\n').map_or(0, |newline| newline + 1);
        Err(TemplateError::Execution(Box::new(ExecutionError {
            template: self.template.name,
            definition: self.definition.clone(),
            line: text_before.matches('\n').count() + 1,
            column: at - line_start,
            node: node.to_string(),
            message: message.into(),
        })))
    }

    fn set_node(&mut self, at: Offset, node: &'t dyn Display) {
        self.node = (at, node);
    }

    fn count_step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return self.error("exceeded maximum number of steps");
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<()> {
        if self.output.len() + text.len() > MAX_OUTPUT_LEN {
            return self.error("exceeded maximum output length");
        }
        self.output.push_str(text);
        Ok(())
    }

    /// Fails if functions have returned too much text. `additional_len` bytes count as returned.
    /// Without this limit, a template could store a text in a variable and double it repeatedly.
    fn check_text_len(&self, additional_len: usize) -> Result<()> {
        if self.text_len + additional_len > MAX_OUTPUT_LEN {
            return self.error("exceeded maximum length of texts");
        }
        Ok(())
    }

    fn render_nodes(&mut self, dot: &Value, nodes: &'t [Node]) -> Result<()> {
        for node in nodes {
            self.count_step()?;
            match node {
                Node::Text(text) => self.write(text),
                Node::Action(pipeline) => self.render_action(dot, pipeline),
                Node::If(branch) => self.render_conditional(dot, branch, false),
                Node::With(branch) => self.render_conditional(dot, branch, true),
                Node::Range(branch) => self.render_range(dot, branch),
                Node::Call(call) => self.render_call(dot, call),
            }?;
        }
        Ok(())
    }

    fn render_action(&mut self, dot: &Value, pipeline: &'t Pipeline) -> Result<()> {
        match self.evaluate_pipeline(dot, pipeline)? {
            _ if !pipeline.variables.is_empty() => Ok(()),
            Value::Missing => self.write("<no value>"),
            value => self.write(&value.to_string()),
        }
    }

    fn render_conditional(
        &mut self,
        dot: &Value,
        branch: &'t Branch,
        changes_dot: bool,
    ) -> Result<()> {
        let in_scope = self.variables.len();
        let value = self.evaluate_pipeline(dot, &branch.pipeline)?;
        if value.is_true() {
            self.render_nodes(if changes_dot { &value } else { dot }, &branch.body)?;
        } else {
            self.render_nodes(dot, &branch.else_body)?;
        }
        self.variables.truncate(in_scope);
        Ok(())
    }

    fn render_range(&mut self, dot: &Value, branch: &'t Branch) -> Result<()> {
        let in_scope = self.variables.len();
        let value = self.evaluate_pipeline(dot, &branch.pipeline)?;
        let elements: Vec<(Value, Value)> = match &value {
            Value::Missing => Vec::new(),
            Value::List(items) => {
                (0..).map(Value::Int).zip(items.iter().cloned().map(Value::Text)).collect()
            }
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| (Value::text(key), Value::text(value))).collect()
            }
            _ => return self.error(format!("range can't iterate over {value}")),
        };
        if elements.is_empty() {
            self.render_nodes(dot, &branch.else_body)?;
        }
        let in_loop = self.variables.len();
        for (index, element) in elements {
            self.count_step()?;
            let values = match &*branch.pipeline.variables {
                [] => vec![],
                [_] => vec![element.clone()],
                _ => vec![index, element.clone()],
            };
            for (name, value) in branch.pipeline.variables.iter().zip(values) {
                self.assign(name, value)?;
            }
            self.render_nodes(&element, &branch.body)?;
            self.variables.truncate(in_loop);
        }
        self.variables.truncate(in_scope);
        Ok(())
    }

    fn render_call(&mut self, dot: &Value, call: &'t TemplateCall) -> Result<()> {
        self.set_node(call.at, call);
        let template = self.template;
        let Some(nodes) = template.trees.get(&call.name) else {
            return self.error(format!("template {} not defined", Quoted(&call.name)));
        };
        if self.depth == MAX_NESTING {
            return self.error(format!("exceeded maximum template depth ({MAX_NESTING})"));
        }
        let dot = match &call.pipeline {
            Some(pipeline) => self.evaluate_pipeline(dot, pipeline)?,
            None => Value::Missing,
        };
        let variables = vec![("$".to_owned(), dot.clone())];
        let variables = std::mem::replace(&mut self.variables, variables);
        let definition = std::mem::replace(&mut self.definition, call.name.clone());
        self.depth += 1;
        self.render_nodes(&dot, nodes)?;
        self.depth -= 1;
        self.variables = variables;
        self.definition = definition;
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Value) -> Result<()> {
        match self.variables.iter_mut().rev().find(|(declared, _)| declared == name) {
            Some((_, current)) => {
                *current = value;
                Ok(())
            }
            None => self.error(format!("undefined variable: {name}")),
        }
    }

    fn evaluate_pipeline(&mut self, dot: &Value, pipeline: &'t Pipeline) -> Result<Value> {
        self.count_step()?;
        self.set_node(pipeline.at, pipeline);
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.evaluate_command(dot, command, value)?);
        }
        let value = value.unwrap_or(Value::Missing);
        for name in &pipeline.variables {
            if pipeline.is_assignment {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    /// Evaluates a command. `piped` is the result of the command before it, which becomes the last
    /// argument.
    fn evaluate_command(
        &mut self,
        dot: &Value,
        command: &'t Command,
        piped: Option<Value>,
    ) -> Result<Value> {
        let Operand { at, term } = &command.first;
        let has_arguments = !command.arguments.is_empty() || piped.is_some();
        match term {
            Term::Function(name) => {
                self.set_node(*at, name);
                return self.call_function(dot, name, command, &command.arguments, piped);
            }
            Term::Field(_) | Term::Chain(..) => {
                return self.evaluate_fields(dot, &command.first, has_arguments);
            }
            Term::Variable(_, fields) if !fields.is_empty() => {
                return self.evaluate_fields(dot, &command.first, has_arguments);
            }
            Term::Pipeline(_) => {}
            _ => self.set_node(*at, term),
        }
        if let Term::Variable(name, _) = term {
            // An undefined variable is reported before its arguments.
            self.variable_value(name)?;
        }
        if has_arguments {
            let operand = match term {
                // Go prints it without its parentheses.
                Term::Pipeline(pipeline) => pipeline.to_string(),
                term => term.to_string(),
            };
            return self.error(format!("can't give argument to non-function {operand}"));
        }
        if matches!(term, Term::Nil) {
            return self.error("nil is not a command");
        }
        self.evaluate_operand(dot, &command.first)
    }

    /// Evaluates an operand that has no arguments.
    fn evaluate_operand(&mut self, dot: &Value, operand: &'t Operand) -> Result<Value> {
        let Operand { at, term } = operand;
        match term {
            Term::Dot => Ok(dot.clone()),
            Term::Nil => Ok(Value::Missing),
            Term::Bool(value) => Ok(Value::Bool(*value)),
            Term::Text { text, .. } => Ok(Value::text(text)),
            Term::Int { value, .. } => Ok(Value::Int(*value)),
            Term::Field(_) | Term::Variable(..) | Term::Chain(..) => {
                self.evaluate_fields(dot, operand, false)
            }
            Term::Function(name) => {
                self.set_node(*at, name);
                self.call_function(dot, name, name, &[], None)
            }
            Term::Pipeline(pipeline) => self.evaluate_pipeline(dot, pipeline),
        }
    }

    fn variable_value(&self, name: &str) -> Result<Value> {
        match self.variables.iter().rev().find(|(declared, _)| declared == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.error(format!("undefined variable: {name}")),
        }
    }

    /// Evaluates a chain of fields.
    fn evaluate_fields(
        &mut self,
        dot: &Value,
        operand: &'t Operand,
        has_arguments: bool,
    ) -> Result<Value> {
        let Operand { at, term } = operand;
        self.set_node(*at, term);
        let (mut value, fields) = match term {
            Term::Field(fields) => (dot.clone(), fields),
            Term::Variable(name, fields) => (self.variable_value(name)?, fields),
            Term::Chain(inner, _) if matches!(inner.term, Term::Nil) => {
                return self.error(format!("indirection through explicit nil in {term}"));
            }
            Term::Chain(inner, fields) => (self.evaluate_operand(dot, inner)?, fields),
            _ => return self.evaluate_operand(dot, operand),
        };
        for (index, field) in fields.iter().enumerate() {
            let is_last = index + 1 == fields.len();
            value = self.evaluate_field(&value, field, has_arguments && is_last)?;
        }
        Ok(value)
    }

    fn evaluate_field(&mut self, value: &Value, name: &str, has_arguments: bool) -> Result<Value> {
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
                if let Some((_, field)) = data.fields.iter().find(|(field, _)| *field == name) {
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

    /// Calls a function. An error that it returns names `node`.
    fn call_function(
        &mut self,
        dot: &Value,
        name: &str,
        node: &'t dyn Display,
        arguments: &'t [Operand],
        piped: Option<Value>,
    ) -> Result<Value> {
        let at = self.node.0;
        let given = arguments.len() + usize::from(piped.is_some());
        if let Err(message) = functions::check_argument_count(name, arguments.len(), given) {
            return self.error(message);
        }
        if matches!(name, "and" | "or") {
            return self.evaluate_and_or(dot, name == "or", arguments, piped);
        }
        let mut values = Vec::with_capacity(given);
        for argument in arguments {
            let needs_text = name == "printf" && values.is_empty();
            values.push(self.evaluate_argument(dot, argument, needs_text)?);
        }
        if let Some(value) = piped {
            let needs_text = name == "printf" && values.is_empty();
            values.push(self.check_type(value, needs_text)?);
        }
        // Checked before the call: the arguments may repeat a long text, and the result may be a
        // few times longer than they are.
        self.check_text_len(values.iter().map(Value::text_len).sum())?;
        let callee = arguments.first().map(|argument| argument.term.to_string());
        let result = functions::call(name, &values, callee.as_deref()).or_else(|message| {
            self.node = (at, node);
            self.error(format!("error calling {name}: {message}"))
        })?;
        self.text_len += result.text_len();
        self.check_text_len(0)?;
        Ok(result)
    }

    /// Evaluates the arguments of `and` or `or` until the truth of one of them is `stops_at`.
    /// Returns that argument, or else the last one.
    fn evaluate_and_or(
        &mut self,
        dot: &Value,
        stops_at: bool,
        arguments: &'t [Operand],
        piped: Option<Value>,
    ) -> Result<Value> {
        let mut last = Value::Missing;
        for argument in arguments {
            last = self.evaluate_argument(dot, argument, false)?;
            if last.is_true() == stops_at {
                return Ok(last);
            }
        }
        Ok(piped.unwrap_or(last))
    }

    fn evaluate_argument(
        &mut self,
        dot: &Value,
        operand: &'t Operand,
        needs_text: bool,
    ) -> Result<Value> {
        self.set_node(operand.at, &operand.term);
        match &operand.term {
            Term::Nil if needs_text => return self.error("cannot assign nil to string"),
            term @ (Term::Bool(_) | Term::Int { .. }) if needs_text => {
                return self.error(format!("expected string; found {term}"));
            }
            _ => {}
        }
        let value = self.evaluate_operand(dot, operand)?;
        self.check_type(value, needs_text)
    }

    fn check_type(&self, value: Value, needs_text: bool) -> Result<Value> {
        match &value {
            _ if !needs_text => Ok(value),
            Value::Text(_) => Ok(value),
            Value::Missing => self.error("invalid value; expected string"),
            _ => {
                let got = value.type_name();
                self.error(format!("wrong type for value; expected string; got {got}"))
            }
        }
    }
}
