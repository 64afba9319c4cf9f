//! The pages of flags and exit statuses of all commands.

use clap::{Arg, Command, CommandFactory};

use super::{Arguments, Page, code};

/// All visible commands with their full names, such as `hpa rules check`.
fn commands() -> Vec<(String, Command)> {
    fn collect(prefix: &str, command: &Command, commands: &mut Vec<(String, Command)>) {
        for subcommand in command.get_subcommands() {
            if subcommand.get_name() == "help" || subcommand.is_hide_set() {
                continue;
            }
            let name = format!("{prefix} {}", subcommand.get_name());
            commands.push((name.clone(), subcommand.clone()));
            collect(&name, subcommand, commands);
        }
    }
    let mut program = Arguments::command();
    program.build();
    let mut commands = Vec::new();
    collect("hpa", &program, &mut commands);
    commands
}

pub(super) fn flags() -> Page {
    let mut page = Page::new(
        "flags.md",
        "Flags",
        "All commands and their flags. A flag overrides its environment variable. `hpa COMMAND \
         --help` prints the same.",
    );
    for (name, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page.write(format_args!("\n## {name}\n\n{about}.\n"));
        page.names.push(name.clone());
        let mut heading = None;
        for argument in command.get_arguments().filter(|argument| is_documented(argument)) {
            let current = argument.get_help_heading();
            if heading != Some(current) {
                let title = current.map(|title| format!("**{title}**"));
                page.start_table(title.as_deref(), &["flag", "default", "variable", ""]);
            }
            heading = Some(current);
            add_flag(&mut page, &name, argument);
        }
    }
    page
}

fn is_documented(argument: &Arg) -> bool {
    let id = argument.get_id().as_str();
    !argument.is_hide_set() && id != "help" && id != "version"
}

/// Adds the row of a flag or a positional argument.
fn add_flag(page: &mut Page, command: &str, argument: &Arg) {
    let names = argument.get_value_names().unwrap_or_default();
    let takes_values = argument.get_action().takes_values();
    let value = match names {
        [name, ..] if takes_values && argument.is_require_equals_set() => format!("[={name}]"),
        [name, ..] if takes_values => format!(" {name}"),
        _ => String::new(),
    };
    let flag = match (argument.get_long(), argument.get_short()) {
        (Some(long), Some(short)) => format!("--{long}, -{short}"),
        (Some(long), None) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    let default = if takes_values { code(&defaults.join(",")) } else { String::new() };
    let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
    let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| code(value.get_name()))
        .collect();
    if takes_values && !values.is_empty() {
        help = format!("{help}. Values: {}", values.join(", "));
    }
    let name = if flag.is_empty() { value.trim().to_owned() } else { format!("{flag}{value}") };
    page.add_row(&[&code(&name), &default, &code(&variable.clone().unwrap_or_default()), &help]);
    if let Some(long) = argument.get_long() {
        let variable = variable.map(|name| format!("{name} ")).unwrap_or_default();
        page.names.push(format!("{command} {variable}--{long}"));
    }
}

pub(super) fn exit_statuses() -> Page {
    let mut page = Page::new(
        "exit-statuses.md",
        "Exit statuses",
        "The status is 0 after a success, 1 after an error, and 2 if the arguments are invalid, \
         unless the table says otherwise.",
    );
    page.start_table(None, &["command", "exit status"]);
    for (name, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let statuses = ["Exit status: ", "The exit status is "].iter().find_map(|start| {
            let (_, rest) = help.split_once(start)?;
            rest.split("\n\n").next()
        });
        if let Some(text) = statuses {
            page.add_row(&[&code(&name), text]);
            page.names.push(format!("exit status of {name}"));
        }
    }
    page
}
