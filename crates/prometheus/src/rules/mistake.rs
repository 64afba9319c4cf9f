//! Describes mistakes in rules in plain words, with advice. The errors themselves have the texts of
//! prometheus-adapter, many of which come from Go's packages.

use std::error::Error;

use hpa_calc::suggestions::most_similar;
use hpa_go_compat::{
    regex::{RegexError, RegexProblem},
    template::{ExecutionError, MAX_TEMPLATE_LEN, TemplateError},
};
use hpa_metrics::with_causes;

use super::{
    config::Finding,
    labels::{FormatError, MappingError},
    name::{FilterError, NameError},
    query::QueryError,
    resource_metrics::{ResourceRuleError, ResourceRuleProblem},
    rule::RuleError,
    ruleset::{InvalidRule, InvalidRuleProblem},
};

/// The start of the message about a field that queries don't have.
pub(super) const UNKNOWN_FIELD: &str = "queries have no <<.";
/// The maximum length of a quoted part of a template, in characters.
const MAX_QUOTED: usize = 40;
/// The Go types of the data of templates, as prometheus-adapter's messages name them.
const DATA_TYPES: [&str; 2] = ["naming.queryTemplateArgs", "schema.GroupResource"];

/// A kind of templates.
struct TemplateKind {
    fields: &'static [&'static str],
    /// The start of the message about an unknown field.
    unknown_field: &'static str,
    /// A field that every template of this kind can use.
    example: &'static str,
}

const QUERY: &TemplateKind = &TemplateKind {
    fields: &["Series", "LabelMatchers", "LabelValuesByName", "GroupBy", "GroupBySlice"],
    unknown_field: UNKNOWN_FIELD,
    example: "<<.Series>>",
};

const LABEL: &TemplateKind = &TemplateKind {
    fields: &["Resource", "Group"],
    unknown_field: "labels have no <<.",
    example: "<<.Resource>>",
};

impl InvalidRule {
    /// The position and the field, then [`Self::describe_problem`].
    pub fn describe(&self) -> String {
        format!("{self}: {}", self.describe_problem())
    }

    /// The mistake with advice, then prometheus-adapter's text.
    pub fn describe_problem(&self) -> String {
        with_original(&self.mistake(), &*self.problem)
    }

    /// The mistake, with advice.
    pub fn mistake(&self) -> String {
        match &*self.problem {
            InvalidRuleProblem::Rule(error) => describe_rule_error(error),
            InvalidRuleProblem::Resource(error) => describe_usage_error(error),
        }
    }
}

impl From<&InvalidRule> for Finding {
    fn from(rule: &InvalidRule) -> Self {
        let (path, position, message) = (rule.path.clone(), rule.position, rule.describe_problem());
        Self { path, position, is_warning: false, message }
    }
}

impl RuleError {
    /// As [`InvalidRule::describe`], without position and field.
    pub(super) fn describe(&self) -> String {
        with_original(&describe_rule_error(self), self)
    }
}

impl ResourceRuleError {
    /// As [`InvalidRule::describe`], without position and field.
    pub(super) fn describe(&self) -> String {
        with_original(&describe_usage_error(self), self)
    }
}

impl QueryError {
    /// The mistake in the template of the query, with advice. `None` for other errors.
    pub fn template_mistake(&self) -> Option<String> {
        let Self::Template(error) = self else { return None };
        Some(describe_template_error("", error, QUERY))
    }

    /// [`Self::template_mistake`] and prometheus-adapter's text, or else the text of the error.
    pub(super) fn describe(&self) -> String {
        let mistake = self.template_mistake();
        mistake.map_or_else(|| self.to_string(), |mistake| with_original(&mistake, self))
    }
}

fn with_original(mistake: &str, error: &(dyn Error + 'static)) -> String {
    format!("{mistake} (prometheus-adapter: {})", with_causes(error))
}

fn describe_rule_error(error: &RuleError) -> String {
    match error {
        RuleError::Mapping(error) => describe_mapping_error(error),
        RuleError::Query { template, source, .. } => {
            describe_template_error(template, source, QUERY)
        }
        RuleError::Filter { source, .. }
        | RuleError::NameMatches { source, .. }
        | RuleError::NameTemplate { source: NameError::Filter(source), .. } => {
            describe_filter_error(source)
        }
        RuleError::NameTemplate { source: NameError::NoTemplate(_), .. } => {
            "name.matches has several groups: write the metric's name into name.as, such as \
             '${1}_per_second'"
                .to_owned()
        }
    }
}

fn describe_usage_error(ResourceRuleError { source, .. }: &ResourceRuleError) -> String {
    match source {
        ResourceRuleProblem::Mapping(error) => describe_mapping_error(error),
        ResourceRuleProblem::Query { template, source, .. } => {
            describe_template_error(template, source, QUERY)
        }
    }
}

fn describe_mapping_error(error: &MappingError) -> String {
    let example = "write, for example, kube_<<.Resource>>";
    match error {
        MappingError::Syntax { template, source } => {
            describe_template_error(template, source, LABEL)
        }
        MappingError::Format { source: FormatError::Template(error), template } => {
            describe_template_error(template, error, LABEL)
        }
        MappingError::Format { source: FormatError::Empty, .. } => {
            format!("the label is empty: {example}")
        }
        MappingError::Format { source: FormatError::Regex(error), .. } => {
            format!("the label can't be matched: {}", describe_regex_error(error))
        }
        MappingError::Format { source: FormatError::NoResource, .. } => {
            format!("the label doesn't depend on the resource: {example}")
        }
        MappingError::Override { label, source, .. } if source.resource.is_empty() => {
            format!("the label {label} has no resource: write, for example, {{resource: pod}}")
        }
        MappingError::Override { source, similar, .. } => {
            let of_group = if source.group.is_empty() { "" } else { " of the group " };
            let advice = similar.as_ref().map_or_else(
                || "write one that kubectl api-resources lists, such as {resource: pod}".to_owned(),
                |similar| format!("did you mean `{similar}`?"),
            );
            let (resource, group) = (&source.resource, &source.group);
            format!("the API has no resource `{resource}`{of_group}{group}: {advice}")
        }
    }
}

fn describe_filter_error(error: &FilterError) -> String {
    match error {
        FilterError::Both { .. } => {
            "a filter has `is` or `isNot`, not both: write two filters".to_owned()
        }
        FilterError::Neither => {
            "the filter has no expression: write, for example, {is: ^http_}".to_owned()
        }
        FilterError::Regex { expression, source } => {
            format!(
                "`{expression}` is not a valid regular expression: {}",
                describe_regex_error(source)
            )
        }
    }
}

fn describe_regex_error(RegexError { problem, expression }: &RegexError) -> String {
    if matches!(problem, RegexProblem::TooLarge | RegexProblem::TotalTooLarge) {
        return format!("{problem}. Shorten it, or repeat less in it");
    }
    format!(
        "{problem} at `{expression}`. Correct it, or write a backslash in front of a character \
         that stands for itself"
    )
}

/// Describes the mistake in a template. `text` is needed only for mistakes in the syntax.
fn describe_template_error(text: &str, error: &TemplateError, kind: &TemplateKind) -> String {
    match error {
        TemplateError::Syntax { line, message, .. } => {
            let has_lines = text.trim_end().contains('\n');
            let place = has_lines.then(|| format!("line {line} of the template: "));
            place.unwrap_or_default() + &describe_syntax_error(text, message, kind)
        }
        TemplateError::Execution(error) => describe_execution_error(error, kind),
        _ => format!("the template is too long: shorten it to {MAX_TEMPLATE_LEN} bytes"),
    }
}

fn describe_syntax_error(text: &str, message: &str, kind: &TemplateKind) -> String {
    let example = kind.example;
    // prometheus-adapter's text is about the character that comes instead of the end.
    if let Some(open) = text.split("<<").skip(1).find(|action| !action.contains(">>")) {
        let is_name = |char: &char| char.is_ascii_alphanumeric() || ".$_ ".contains(*char);
        let name: String = open.chars().take_while(is_name).take(MAX_QUOTED).collect();
        let name = name.trim_end();
        return format!("`<<{name}` is not closed: write <<{name}>>");
    }
    if let Some(name) = between(message, "function \"", "\" not defined") {
        return describe_unknown_function(name, kind);
    }
    if let Some(name) = between(message, "undefined variable \"", "\"") {
        return format!(
            "the variable {name} is not set: write, for example, <<range $label, $value := \
             .LabelValuesByName>>"
        );
    }
    // Such as "bad character U+007D '}'".
    if let Some((start, code_point)) = message.split_once("U+")
        && start.contains("character")
    {
        let char = code_point.split_once(' ').map_or(code_point, |(_, char)| char);
        return format!("an action can't have {char} here: write only the field, as in {example}");
    }
    if message.ends_with("not supported") {
        return format!("{}: rules can't use it", message.replace("{{", "<<").replace("}}", ">>"));
    }
    let mistake = match message {
        "unexpected EOF" => "<<if>>, <<range>>, <<with>> or <<define>> is not closed: add <<end>>",
        "unexpected {{end}}" => "there is one <<end>> too many: remove it",
        "unexpected {{else}}" => "<<else>> is not in an <<if>>, <<range>> or <<with>>: remove it",
        text if text.starts_with("missing value for") || text == "empty command" => {
            return format!("an action is empty: write a field, as in {example}, or remove it");
        }
        text if text.contains(" paren") => "a parenthesis has no counterpart: add or remove one",
        text if text.contains("quoted string") => "a string has no closing quote: add it",
        text if text.contains("comment") => "a comment is not closed: add */>>",
        _ => return format!("an action can't be parsed: write only the field, as in {example}"),
    };
    mistake.to_owned()
}

fn describe_unknown_function(name: &str, kind: &TemplateKind) -> String {
    let fields = kind.fields;
    if fields.contains(&name) {
        return format!("the dot is missing: write <<.{name}>>, not <<{name}>>");
    }
    match most_similar(name, fields.iter().copied()) {
        Some(similar) => format!("there is no function {name}: did you mean <<.{similar}>>?"),
        None => format!(
            "there is no function {name}: write a field, as in {}, or a function of Go's \
             templates, such as index or printf",
            kind.example
        ),
    }
}

fn describe_execution_error(error: &ExecutionError, kind: &TemplateKind) -> String {
    let ExecutionError { node, message, .. } = error;
    let node: String = node.chars().take(MAX_QUOTED).collect();
    let Some(rest) = message.strip_prefix("can't evaluate field ") else {
        let problem = message.strip_prefix("error calling ").unwrap_or(message);
        return format!("`{node}` can't be used like this: {problem}");
    };
    let (field, owner) = rest.split_once(" in type ").unwrap_or((rest, ""));
    if !DATA_TYPES.contains(&owner) {
        return format!(
            "`{node}` has no value: only the template's data has fields, not their values"
        );
    }
    let fields = kind.fields;
    let advice = match most_similar(field, fields.iter().copied()) {
        Some(similar) => format!("did you mean <<.{similar}>>?"),
        None => format!("there are <<.{}>>", fields.join(">>, <<.")),
    };
    format!("{}{field}>>: {advice}", kind.unknown_field)
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.split_once(start)?.1.split_once(end).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests;
