//! `hpa man`: prints man pages.

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::{
    args::{Arguments, ManArguments},
    terminal,
};

/// Prints a man page in roff.
pub(crate) fn run(arguments: &ManArguments) -> anyhow::Result<()> {
    let page = page(arguments.command.as_deref())?;
    terminal::write(page)
}

/// Renders the page of the program or, with a name, of a subcommand.
fn page(name: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let mut program = Arguments::command();
    program.build();
    let command = match name {
        None => program,
        Some(name) => subcommand(&program, name)?,
    };
    let mut page = Vec::new();
    let source = concat!("hpa ", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(source).render(&mut page).context("unable to render the page")?;
    Ok(page)
}

/// Finds a subcommand and gives it the name of its page, such as `hpa-run`.
fn subcommand(program: &Command, name: &str) -> anyhow::Result<Command> {
    let command =
        program.find_subcommand(name).with_context(|| format!("unknown command {name}"))?;
    Ok(command.clone().display_name(format!("hpa-{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Option<&str>) -> String {
        let page = page(name).expect("a page");
        // roff escapes hyphens.
        String::from_utf8(page).expect("UTF-8").replace("\\-", "-")
    }

    #[test]
    fn main_page_lists_every_command() {
        let page = text(None);
        for command in Arguments::command().get_subcommands() {
            assert!(
                page.contains(&format!("hpa-{}(1)", command.get_name())),
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn every_command_has_a_page_in_the_release() {
        let justfile = include_str!("../../../justfile");
        let (_, list) = justfile.split_once("    for command in ").expect("a loop");
        let (list, _) = list.split_once("; do target/release/hpa man").expect("the list's end");
        let names: Vec<_> = list.split(' ').collect();
        for command in Arguments::command().get_subcommands().filter(|one| !one.is_hide_set()) {
            assert!(names.contains(&command.get_name()), "{}", command.get_name());
        }
    }

    #[test]
    fn command_page_lists_every_flag_and_variable() {
        for command in Arguments::command().get_subcommands() {
            let page = text(Some(command.get_name()));
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let flag = argument.get_long().map(|flag| format!("--{flag}"));
                let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
                for expected in flag.into_iter().chain(variable) {
                    assert!(page.contains(&expected), "{}: {expected}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn unknown_command_is_rejected() {
        let error = page(Some("walk")).expect_err("no such command");
        assert_eq!(error.to_string(), "unknown command walk");
    }
}
