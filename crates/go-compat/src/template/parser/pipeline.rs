//! Parses pipelines, commands and operands.

use hpa_calc::go_text::Quoted;

use super::{Parser, Result};
use crate::template::{
    ast::{Command, Operand, Pipeline, Term},
    functions,
    lexer::Kind,
};

impl Parser<'_> {
    pub(super) fn parse_pipeline(&mut self, context: &str, end: Kind) -> Result<Pipeline> {
        let at = self.peek_non_space().at;
        let mut pipeline =
            Pipeline { at, variables: Vec::new(), is_assignment: false, commands: Vec::new() };
        self.parse_declarations(&mut pipeline, context)?;
        loop {
            let token = self.advance_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::StringLiteral
                | Kind::Variable
                | Kind::LeftParen => {
                    self.next -= 1;
                    pipeline.commands.push(self.parse_command()?);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        self.check_commands(&pipeline, context)?;
        Ok(pipeline)
    }

    /// Checks that there is a command, and that no command after a `|` is a constant: a constant
    /// can't take a piped value.
    fn check_commands(&self, pipeline: &Pipeline, context: &str) -> Result<()> {
        if pipeline.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        let is_constant = |command: &Command| {
            let term = &command.first.term;
            matches!(
                term,
                Term::Bool(_) | Term::Dot | Term::Nil | Term::Int { .. } | Term::Text { .. }
            )
        };
        match pipeline.commands.iter().skip(1).position(is_constant) {
            Some(index) => {
                self.error(format!("non executable command in pipeline stage {}", index + 2))
            }
            None => Ok(()),
        }
    }

    /// Parses `$x :=`, `$x =` or, for `range`, `$i, $x :=`.
    fn parse_declarations(&mut self, pipeline: &mut Pipeline, context: &str) -> Result<()> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            let start = self.next;
            self.next += 1;
            let operator = self.peek_non_space();
            let is_comma = operator.kind == Kind::Char && operator.text == ",";
            if !is_comma && !matches!(operator.kind, Kind::Assign | Kind::Declare) {
                self.next = start;
                return Ok(());
            }
            self.next += 1;
            pipeline.is_assignment = operator.kind == Kind::Assign;
            pipeline.variables.push(variable.text.to_string());
            self.variables.push(variable.text.into_owned());
            if !is_comma {
                return Ok(());
            }
            if context != "range" || pipeline.variables.len() > 1 {
                return self.error(format!("too many declarations in {context}"));
            }
            let next = self.peek_non_space().kind;
            if !matches!(next, Kind::Variable | Kind::RightDelimiter | Kind::RightParen) {
                return self.error("range can only initialize variables");
            }
        }
    }

    fn parse_command(&mut self) -> Result<Command> {
        let mut operands = Vec::new();
        loop {
            self.skip_spaces();
            operands.extend(self.parse_operand()?);
            let token = self.advance();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelimiter | Kind::RightParen => {
                    self.next -= 1;
                    break;
                }
                Kind::Pipe => break,
                _ => return self.unexpected(&token, "operand"),
            }
        }
        if let [
            Operand { term: Term::Function(name), .. },
            Operand { term: Term::Text { text, .. }, .. },
            ..,
        ] = &*operands
            && name == "printf"
            && let Err(message) = functions::check_format(text)
        {
            return self.error(message);
        }
        let mut operands = operands.into_iter();
        match operands.next() {
            Some(first) => Ok(Command { first, arguments: operands.collect() }),
            None => self.error("empty command"),
        }
    }

    /// Parses a term and the fields after it.
    fn parse_operand(&mut self) -> Result<Option<Operand>> {
        let Some(Operand { at, term }) = self.parse_term()? else {
            return Ok(None);
        };
        let chain_at = self.peek().at;
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(field_name(&self.advance().text));
        }
        if fields.is_empty() {
            return Ok(Some(Operand { at, term }));
        }
        let term = match term {
            Term::Field(mut first) => {
                first.extend(fields);
                Term::Field(first)
            }
            Term::Variable(name, _) => Term::Variable(name, fields),
            Term::Bool(_) | Term::Text { .. } | Term::Int { .. } | Term::Nil | Term::Dot => {
                let term = term.to_string();
                return self.error(format!("unexpected . after term {}", Quoted(&term)));
            }
            term => Term::Chain(Box::new(Operand { at, term }), fields),
        };
        Ok(Some(Operand { at: chain_at, term }))
    }

    fn parse_term(&mut self) -> Result<Option<Operand>> {
        let token = self.advance_non_space();
        let text = &*token.text;
        let term = match token.kind {
            Kind::Identifier if !functions::is_function(text) => {
                return self.error(format!("function {} not defined", Quoted(text)));
            }
            Kind::Identifier => Term::Function(text.to_owned()),
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable if !self.variables.iter().any(|name| name == text) => {
                return self.error(format!("undefined variable {}", Quoted(text)));
            }
            Kind::Variable => Term::Variable(text.to_owned(), Vec::new()),
            Kind::Field => Term::Field(vec![field_name(text)]),
            Kind::Bool => Term::Bool(text == "true"),
            Kind::Number => match text.parse() {
                Ok(value) => Term::Int { text: text.to_owned(), value },
                Err(_) => return self.error(format!("integer overflow: {}", Quoted(text))),
            },
            Kind::StringLiteral => {
                Term::Text { quoted: text.to_owned(), text: self.parse_text_literal(&token)? }
            }
            Kind::LeftParen => {
                let pipeline = |parser: &mut Self| {
                    parser.parse_pipeline("parenthesized pipeline", Kind::RightParen)
                };
                Term::Pipeline(self.with_nesting(pipeline)?)
            }
            _ => {
                self.next -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Operand { at: token.at, term }))
    }
}

fn field_name(token: &str) -> String {
    token.trim_start_matches('.').to_owned()
}
