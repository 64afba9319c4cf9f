//! Compiles paths and expressions, which may contain each other. Expressions become postfix
//! programs.

use crate::jsonpath::{
    ExtractError,
    error::{EvalError, abbreviated},
    functions::Function,
    math,
    operators::Operator,
    quote::unquote,
    scan::{Scanner, number_value, starts_operator},
    tokens::{split_steps, to_lower_case, tokenize},
    value::Value,
};

/// Maximum length of a path or expression.
const MAX_BYTES: usize = 16 << 10;

/// Maximum nesting of paths and expressions.
const MAX_NESTING: usize = 16;

/// A compiled path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `$`: the root, if it is first. Otherwise it has no effect.
    Root,
    /// `@`: the current value, if it is first. Otherwise it has no effect.
    Current,
    /// `..`: the value, and all arrays and objects below it.
    Descend,
    /// `*`: all children.
    Children,
    /// `[start:end:step]`. The parts are separated by the colons.
    Slice { parts: Vec<Key>, text: String },
    /// `[?(...)]`: the children for which the expression is true.
    Filter(Expression),
    /// `[(...)]`: the child whose key or index is the result. `true` selects all children.
    Script(Expression),
    /// A name, or several names in brackets, separated by commas.
    Keys { keys: Vec<Key>, text: String },
    /// An invalid step, which is an error when the evaluation reaches it.
    Invalid(EvalError),
}

/// A name, an index, or an expression in parentheses.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: Vec<u8>,
    pub(crate) expression: Option<Expression>,
}

impl Key {
    pub(crate) fn new(text: Vec<u8>, nesting: usize) -> Self {
        let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
        let expression = inner.map(|inner| Expression::parse(inner, nesting + 1));
        Self { text, expression }
    }
}

impl Path {
    /// Parses a path. Invalid steps are errors only when an evaluation reaches them.
    pub(crate) fn parse(text: &[u8], nesting: usize) -> Result<Self, ExtractError> {
        if text.len() > MAX_BYTES {
            let problem = "more than 16 KiB";
            return Err(ExtractError::Path { position: MAX_BYTES, problem });
        }
        let steps = split_steps(text)?;
        let step = |step: &[u8]| {
            if nesting > MAX_NESTING {
                return Step::Invalid(EvalError::new("expressions are nested too deeply"));
            }
            Step::parse(step, nesting).unwrap_or_else(Step::Invalid)
        };
        Ok(Self { steps: steps.into_iter().map(step).collect() })
    }
}

impl Step {
    fn parse(text: &[u8], nesting: usize) -> Result<Self, EvalError> {
        // All kinds of steps must have valid tokens.
        let tokens = tokenize(text)?;
        let has = |token: &[u8]| tokens.iter().any(|other| other == token);
        let keys = |separator: &[u8]| {
            let parts = tokens.split(|token| token == separator);
            parts.map(|part| Key::new(part.concat(), nesting)).collect::<Vec<_>>()
        };
        let inside = |prefix: &[u8]| text.strip_prefix(prefix)?.strip_suffix(b")");
        Ok(match text {
            b"$" => Self::Root,
            b"@" => Self::Current,
            b".." => Self::Descend,
            b"*" => Self::Children,
            _ if has(b":") => {
                let parts = keys(b":");
                // ajson permits three colons, and ignores the fourth part.
                if parts.len() > 4 {
                    return Err(EvalError::Slice(abbreviated(text)));
                }
                Self::Slice { parts, text: abbreviated(text) }
            }
            _ if let Some(inner) = inside(b"?(") => {
                Self::Filter(Expression::parse(inner, nesting + 1).require_valid()?)
            }
            _ if let Some(inner) = inside(b"(") => {
                Self::Script(Expression::parse(inner, nesting + 1).require_valid()?)
            }
            _ if has(b",") => Self::Keys { keys: keys(b","), text: abbreviated(text) },
            _ => {
                Self::Keys { keys: vec![Key::new(text.to_vec(), nesting)], text: abbreviated(text) }
            }
        })
    }
}

/// A compiled expression, or its error.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    program: Result<Vec<Instruction>, EvalError>,
    /// Whether the expression is `@.length`: the number of children of a container.
    pub(crate) is_length: bool,
}

/// An instruction of a stack machine.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    Call(Function),
    Apply(Operator),
    /// Pushes the selected values.
    Select(Path),
    /// Pushes a constant.
    Push(Value),
    Fail(EvalError),
}

/// An operator or function whose operands are not complete yet, or an open parenthesis.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Parenthesis,
    Operator(Operator),
    Function(Function),
}

impl Expression {
    pub(crate) fn parse(text: &[u8], nesting: usize) -> Self {
        if text.len() > MAX_BYTES {
            let error = EvalError::new("the expression has more than 16 KiB");
            return Self { program: Err(error), is_length: false };
        }
        let mut parser = Parser { text, nesting, pending: Vec::new(), program: Vec::new() };
        let program = parser.parse().map(|()| parser.program);
        Self { program, is_length: text == b"@.length" }
    }

    pub(crate) fn program(&self) -> Result<&[Instruction], EvalError> {
        self.program.as_deref().map_err(Clone::clone)
    }

    /// Fails if the expression is invalid. Without this check, an invalid expression fails only
    /// when it is evaluated.
    pub(crate) fn require_valid(self) -> Result<Self, EvalError> {
        self.program()?;
        Ok(self)
    }
}

struct Parser<'t> {
    text: &'t [u8],
    nesting: usize,
    pending: Vec<Pending>,
    program: Vec<Instruction>,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<(), EvalError> {
        let mut scanner = Scanner::new(self.text);
        let mut after_value = false;
        while let Some(byte) = scanner.skip_space() {
            let start = scanner.position();
            if starts_operator(byte) && after_value {
                after_value = false;
                let operator =
                    Operator::take(&mut scanner).ok_or_else(|| self.syntax_error(start))?;
                self.push_operator(operator);
                continue;
            }
            after_value = byte != b'(';
            match byte {
                b'-' | b'+' | b'.' | b'0'..=b'9' => {
                    let number = scanner.take_number().ok_or_else(|| self.syntax_error(start))?;
                    self.program.push(Instruction::Push(Value::Number(number_value(number))));
                }
                _ if starts_operator(byte) => return Err(self.syntax_error(start)),
                b'"' | b'\'' => {
                    let text = scanner.take_quoted(byte).and_then(|quoted| unquote(quoted, byte));
                    let text = text.ok_or_else(|| self.syntax_error(start))?;
                    self.program.push(Instruction::Push(Value::text(&text)));
                }
                b'$' | b'@' => {
                    let variable =
                        scanner.take_variable().ok_or_else(|| self.syntax_error(start))?;
                    self.push_path(variable);
                }
                b'(' => {
                    scanner.advance();
                    self.pending.push(Pending::Parenthesis);
                }
                b')' => {
                    scanner.advance();
                    self.close_parenthesis()?;
                }
                _ => after_value = self.parse_name(&mut scanner)?,
            }
        }
        while let Some(pending) = self.pending.pop() {
            let instruction = pending.instruction().ok_or_else(|| self.parentheses_error())?;
            self.program.push(instruction);
        }
        if self.program.is_empty() {
            Err(EvalError::Incomplete(self.abbreviated()))
        } else {
            Ok(())
        }
    }

    /// Parses a function or constant. Returns whether it is a constant.
    fn parse_name(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, EvalError> {
        let (name, is_function) = scanner.take_name();
        let name = String::from_utf8_lossy(&to_lower_case(name)).into_owned();
        let unknown = |kind: &str| {
            EvalError::new(format!("{:?} is not a {kind}", abbreviated(name.as_bytes())))
        };
        if is_function {
            let function = Function::new(&name).ok_or_else(|| unknown("function"))?;
            self.pending.push(Pending::Function(function));
            return Ok(false);
        }
        let constant = match name.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            _ => match math::find_constant(&name) {
                Some(number) => Value::Number(Some(number)),
                None => return Err(unknown("constant")),
            },
        };
        self.program.push(Instruction::Push(constant));
        Ok(true)
    }

    /// Adds an operator. The pending functions and operators that bind before it become
    /// instructions.
    fn push_operator(&mut self, operator: Operator) {
        while let Some(pending) = self.pending.last() {
            let is_first = match pending {
                Pending::Function(_) => true,
                Pending::Operator(pending) => pending.binds_before(operator),
                Pending::Parenthesis => false,
            };
            if !is_first {
                break;
            }
            self.program.extend(self.pending.pop().and_then(Pending::instruction));
        }
        self.pending.push(Pending::Operator(operator));
    }

    /// Converts the pending operations since the opening parenthesis to instructions.
    fn close_parenthesis(&mut self) -> Result<(), EvalError> {
        loop {
            let pending = self.pending.pop().ok_or_else(|| self.parentheses_error())?;
            match pending.instruction() {
                Some(instruction) => self.program.push(instruction),
                None => return Ok(()),
            }
        }
    }

    fn push_path(&mut self, path: &[u8]) {
        let instruction = match Path::parse(path, self.nesting) {
            Ok(path) => Instruction::Select(path),
            Err(_) => Instruction::Fail(EvalError::Syntax(0, abbreviated(path))),
        };
        self.program.push(instruction);
    }

    fn syntax_error(&self, position: usize) -> EvalError {
        EvalError::Syntax(position, self.abbreviated())
    }

    fn parentheses_error(&self) -> EvalError {
        EvalError::new(format!("unbalanced parentheses in {:?}", self.abbreviated()))
    }

    fn abbreviated(&self) -> String {
        abbreviated(self.text)
    }
}

impl Pending {
    fn instruction(self) -> Option<Instruction> {
        match self {
            Self::Parenthesis => None,
            Self::Operator(operator) => Some(Instruction::Apply(operator)),
            Self::Function(function) => Some(Instruction::Call(function)),
        }
    }
}
