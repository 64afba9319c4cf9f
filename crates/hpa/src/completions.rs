//! `hpa completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    args::{Arguments, CompletionsArguments},
    terminal,
};

/// Prints the completion script of a shell.
pub(crate) fn run(arguments: &CompletionsArguments) -> anyhow::Result<()> {
    terminal::write(completions(arguments.shell))
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut command = Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "hpa", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_completes_all_commands_and_flags() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(completions(*shell)).expect("UTF-8");
            for command in Arguments::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
                for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                    assert!(text.contains(flag), "{shell}: {} --{flag}", command.get_name());
                }
            }
        }
    }
}
