//! Rendering, with the types and messages of Go's `text/template`.

mod operand;

use hpa_calc::go_text::Quoted;

use super::{
    MAX_NESTING, MAX_OUTPUT_LEN, MAX_STEPS, Template, TemplateError,
    ast::{Branch, Command, Node, Offset, Operand, Pipeline, TemplateCall, Term},
    error::ExecutionError,
    print,
    value::Value,
};

pub(super) fn execute(template: &Template, data: Value) -> Result<String, TemplateError> {
    let mut execution = Execution {
        template,
        definition: template.name.to_owned(),
        variables: vec![("$".to_owned(), data.clone())],
        output: String::new(),
        depth: 0,
        steps: 0,
        node: (0, String::new()),
    };
    if let Some(nodes) = template.trees.get(template.name) {
        execution.nodes(&data, nodes)?;
    }
    Ok(execution.output)
}

struct Execution<'t> {
    template: &'t Template,
    /// The definition that is rendered.
    definition: String,
    variables: Vec<(String, Value)>,
    output: String,
    depth: usize,
    steps: usize,
    /// The node that an error is about.
    node: (Offset, String),
}

/// Whether to go on with the next node of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type Result<T, E = TemplateError> = std::result::Result<T, E>;

impl Execution<'_> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        let (at, node) = &self.node;
        let before = self.template.text.get(..*at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Err(TemplateError::Execution(Box::new(ExecutionError {
            template: self.template.name,
            definition: self.definition.clone(),
            line: before.matches('\n').count() + 1,
            column: at - line_start,
            node: node.clone(),
            message: message.into(),
        })))
    }

    fn at(&mut self, at: Offset, node: &impl ToString) {
        self.node = (at, node.to_string());
    }

    fn step(&mut self) -> Result<()> {
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

    fn nodes(&mut self, dot: &Value, nodes: &[Node]) -> Result<Flow> {
        for node in nodes {
            self.step()?;
            let flow = match node {
                Node::Text(text) => self.write(text).map(|()| Flow::Next),
                Node::Action(pipeline) => self.action(dot, pipeline),
                Node::If(branch) => self.conditional(dot, branch, false),
                Node::With(branch) => self.conditional(dot, branch, true),
                Node::Range(branch) => self.range(dot, branch),
                Node::Call(call) => self.call(dot, call),
                Node::Break => Ok(Flow::Break),
                Node::Continue => Ok(Flow::Continue),
            }?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn action(&mut self, dot: &Value, pipeline: &Pipeline) -> Result<Flow> {
        let value = self.pipeline(dot, pipeline)?;
        if pipeline.variables.is_empty() {
            self.write(&print::plain(&value))?;
        }
        Ok(Flow::Next)
    }

    fn conditional(&mut self, dot: &Value, branch: &Branch, changes_dot: bool) -> Result<Flow> {
        let in_scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipeline)?;
        let flow = if value.is_true() {
            self.nodes(if changes_dot { &value } else { dot }, &branch.body)
        } else {
            self.nodes(dot, branch.otherwise.as_deref().unwrap_or_default())
        };
        self.variables.truncate(in_scope);
        flow
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Result<Flow> {
        let in_scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipeline)?;
        let is_empty = match &value {
            Value::Missing => true,
            Value::List(items) => {
                let items = items.iter().cloned().map(Value::Text);
                self.iterations(branch, (0..).map(Value::Int).zip(items))?
            }
            Value::Map(entries) => {
                let texts =
                    |(key, value): (&String, &String)| (Value::text(key), Value::text(value));
                self.iterations(branch, entries.iter().map(texts))?
            }
            Value::Int(_) | Value::Byte(_) if branch.pipeline.variables.len() > 1 => {
                let number = print::plain(&value);
                let problem = "to iterate over more than one variable";
                return self.error(format!("can't use {number} {problem}"));
            }
            Value::Int(end) => {
                self.iterations(branch, (0..*end).map(|int| (Value::Missing, Value::Int(int))))?
            }
            Value::Byte(end) => {
                self.iterations(branch, (0..*end).map(|byte| (Value::Missing, Value::Byte(byte))))?
            }
            Value::Bool(_) | Value::Float(_) | Value::Text(_) | Value::Struct(_) => {
                return self.error(format!("range can't iterate over {}", print::plain(&value)));
            }
        };
        let otherwise = branch.otherwise.as_deref().filter(|_| is_empty);
        let flow = self.nodes(dot, otherwise.unwrap_or_default());
        self.variables.truncate(in_scope);
        flow
    }

    /// Executes the body for each pair of index and element. Returns whether there are none.
    fn iterations(
        &mut self,
        branch: &Branch,
        elements: impl Iterator<Item = (Value, Value)>,
    ) -> Result<bool> {
        let in_scope = self.variables.len();
        let mut is_empty = true;
        for (index, element) in elements {
            self.step()?;
            is_empty = false;
            let values = match branch.pipeline.variables.len() {
                0 => vec![],
                1 => vec![element.clone()],
                _ => vec![index, element.clone()],
            };
            for (name, value) in branch.pipeline.variables.iter().zip(values) {
                self.assign(name, value)?;
            }
            let flow = self.nodes(&element, &branch.body)?;
            self.variables.truncate(in_scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(is_empty)
    }

    fn call(&mut self, dot: &Value, call: &TemplateCall) -> Result<Flow> {
        self.at(call.at, call);
        let template = self.template;
        let Some(nodes) = template.trees.get(&call.name) else {
            return self.error(format!("template {} not defined", Quoted(&call.name)));
        };
        if self.depth == MAX_NESTING {
            return self.error(format!("exceeded maximum template depth ({MAX_NESTING})"));
        }
        let dot = match &call.pipeline {
            Some(pipeline) => self.pipeline(dot, pipeline)?,
            None => Value::Missing,
        };
        let variables = vec![("$".to_owned(), dot.clone())];
        let variables = std::mem::replace(&mut self.variables, variables);
        let definition = std::mem::replace(&mut self.definition, call.name.clone());
        self.depth += 1;
        self.nodes(&dot, nodes)?;
        self.depth -= 1;
        self.variables = variables;
        self.definition = definition;
        Ok(Flow::Next)
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

    fn pipeline(&mut self, dot: &Value, pipeline: &Pipeline) -> Result<Value> {
        self.step()?;
        self.at(pipeline.at, pipeline);
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(dot, command, value)?);
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

    /// Evaluates a command. `piped` is the result of the command before it.
    fn command(&mut self, dot: &Value, command: &Command, piped: Option<Value>) -> Result<Value> {
        let Operand { at, term } = &command.first;
        let has_arguments = !command.arguments.is_empty() || piped.is_some();
        match term {
            Term::Function(name) => {
                self.at(*at, name);
                return self.function(dot, name, command.to_string(), &command.arguments, piped);
            }
            Term::Field(_) | Term::Chain(..) => {
                return self.fields(dot, &command.first, has_arguments);
            }
            Term::Variable(_, fields) if !fields.is_empty() => {
                return self.fields(dot, &command.first, has_arguments);
            }
            Term::Pipeline(_) => {}
            _ => self.at(*at, term),
        }
        if let Term::Variable(name, _) = term {
            self.variable(name)?;
        }
        if has_arguments {
            let operand = match term {
                Term::Pipeline(pipeline) => pipeline.to_string(),
                term => term.to_string(),
            };
            return self.error(format!("can't give argument to non-function {operand}"));
        }
        if matches!(term, Term::Nil) {
            return self.error("nil is not a command");
        }
        self.operand(dot, &command.first)
    }
}
