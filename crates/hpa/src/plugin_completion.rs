//! Completions of `kubectl hpa`. kubectl runs `kubectl_complete-hpa` with the words that the user
//! has typed, and reads candidates in Cobra's format: one per line with an optional description,
//! then a directive.

use std::{ffi::OsString, fmt::Write as _, io::Write as _, path::Path, process::ExitCode};

use clap::{Arg, Command, CommandFactory, builder::StyledStr};

use crate::args::Arguments;

/// The name under which kubectl runs the program for completions.
const COMPLETER_NAME: &str = "kubectl_complete-hpa";

/// Cobra's `ShellCompDirective`: whether the shell may complete names of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    /// The shell completes names of files if there is no candidate.
    Files = 0,
    /// The shell completes no names of files.
    NoFiles = 4,
}

#[derive(Debug, PartialEq, Eq)]
struct Completion {
    /// Candidates and their descriptions, which may be empty.
    candidates: Vec<(String, String)>,
    directive: Directive,
}

/// The typed words, if the program was started as a completer.
pub(crate) fn typed_words(mut arguments: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let program = arguments.next()?;
    let is_completer = Path::new(&program).file_stem().is_some_and(|name| name == COMPLETER_NAME);
    is_completer.then(|| arguments.map(|word| word.to_string_lossy().into_owned()).collect())
}

/// Prints the completions of the last word.
pub(crate) fn print(words: &[String]) -> ExitCode {
    let mut root = Arguments::command();
    // Adds `--help` and flags that all subcommands have.
    root.build();
    let Completion { candidates, directive } = complete(&root, words);
    let mut text = String::new();
    for (candidate, description) in candidates {
        text.push_str(&candidate);
        if !description.is_empty() {
            text.push('\t');
            text.push_str(&description);
        }
        text.push('\n');
    }
    // Writing to a string doesn't fail.
    let _ = writeln!(text, ":{}", directive as u8);
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn complete(root: &Command, words: &[String]) -> Completion {
    let (last, preceding) = match words.split_last() {
        Some((last, preceding)) => (last.as_str(), preceding),
        None => ("", words),
    };
    let mut command = root;
    // The flag whose value is the next word.
    let mut flag: Option<&Arg> = None;
    for word in preceding {
        if flag.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            flag = find_flag_with_value(command, word)
                .filter(|flag| !word.contains('=') && !flag.is_require_equals_set());
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        }
    }
    match (flag, last.split_once('=')) {
        (Some(flag), _) => complete_values(flag, last, ""),
        (None, Some((name, value))) if name.starts_with("--") => {
            match find_flag_with_value(command, name) {
                Some(flag) => complete_values(flag, value, &format!("{name}=")),
                None => Completion { candidates: Vec::new(), directive: Directive::NoFiles },
            }
        }
        (None, _) if last.starts_with('-') => complete_flags(command, last),
        (None, _) if command.has_subcommands() => complete_subcommands(command, last),
        (None, _) => match command.get_positionals().next() {
            Some(positional) => complete_values(positional, last, ""),
            None => complete_flags(command, last),
        },
    }
}

/// Finds the flag that a word names, if the flag takes a value.
fn find_flag_with_value<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let word = word.split('=').next().unwrap_or_default();
    let is_named = |flag: &&Arg| {
        if let Some(name) = word.strip_prefix("--") {
            return flag.get_long() == Some(name);
        }
        let names = word.strip_prefix('-').zip(flag.get_short());
        names.is_some_and(|(name, short)| name.chars().eq([short]))
    };
    let takes_value = |flag: &&Arg| flag.get_action().takes_values();
    command.get_arguments().filter(takes_value).find(is_named)
}

fn complete_values(argument: &Arg, typed: &str, prefix: &str) -> Completion {
    let possible = argument.get_possible_values();
    let directive = if possible.is_empty() { Directive::Files } else { Directive::NoFiles };
    let visible = possible.iter().filter(|value| !value.is_hide_set());
    let names = visible.map(|value| (value.get_name().to_owned(), value.get_help()));
    complete_names(names, typed, prefix, directive)
}

fn complete_flags(command: &Command, typed: &str) -> Completion {
    let visible = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let names =
        visible.filter_map(|flag| Some((format!("--{}", flag.get_long()?), flag.get_help())));
    complete_names(names, typed, "", Directive::NoFiles)
}

fn complete_subcommands(command: &Command, typed: &str) -> Completion {
    let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names = visible.map(|inner| (inner.get_name().to_owned(), inner.get_about()));
    complete_names(names, typed, "", Directive::NoFiles)
}

/// The names that begin with the typed text, with the first lines of their help. `prefix` is the
/// part of the word before the name.
fn complete_names<'h>(
    names: impl Iterator<Item = (String, Option<&'h StyledStr>)>,
    typed: &str,
    prefix: &str,
    directive: Directive,
) -> Completion {
    let matching = names.filter(|(name, _)| name.starts_with(typed));
    let candidates = matching.map(|(name, help)| {
        let help = help.map(ToString::to_string).unwrap_or_default();
        (format!("{prefix}{name}"), help.lines().next().unwrap_or_default().to_owned())
    });
    Completion { candidates: candidates.collect(), directive }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn complete_words(words: &[&str]) -> (Vec<String>, Directive) {
        let mut root = Arguments::command();
        root.build();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let Completion { candidates, directive } = complete(&root, &words);
        (candidates.into_iter().map(|(candidate, _)| candidate).collect(), directive)
    }

    #[rstest]
    #[case::subcommand(&["ex"], &["explain"])]
    #[case::inner_subcommand(&["rules", "ex"], &["explain"])]
    #[case::flag(&["explain", "web", "--wat"], &["--watch"])]
    #[case::value_after_a_space(&["explain", "web", "-o", ""], &["text", "json", "yaml"])]
    #[case::value_of_a_long_flag(&["explain", "--output", "y"], &["yaml"])]
    #[case::value_after_an_equals_sign(&["lint", "--output=s"], &["--output=sarif"])]
    #[case::value_named_like_a_subcommand(
        &["--help", "explain", "-n", "lint", "--watc"],
        &["--watch"]
    )]
    #[case::boolean_after_an_equals_sign(&["lint", "--collectors=f"], &["--collectors=false"])]
    #[case::flag_after_a_boolean(&["lint", "--collectors", "--output", "s"], &["sarif"])]
    #[case::started_flag_after_a_boolean(&["lint", "--collectors", "--outp"], &["--output"])]
    #[case::positional_value(&["completions", "ba"], &["bash"])]
    #[case::unknown_flag(&["explain", "--nothing=x"], &[])]
    fn last_word_is_completed(#[case] words: &[&str], #[case] expected: &[&str]) {
        let (candidates, directive) = complete_words(words);
        assert_eq!(candidates, expected);
        assert_eq!(directive, Directive::NoFiles);
    }

    #[test]
    fn shell_completes_file_names() {
        for words in [
            &["lint", ""][..],
            &["lint", "--collectors", ""],
            &["explain", "-f", ""],
            &["explain", "--filename=w"],
        ] {
            assert_eq!(complete_words(words), (Vec::new(), Directive::Files), "{words:?}");
        }
    }

    #[test]
    fn flag_that_requires_an_equals_sign_does_not_take_the_next_word() {
        let (candidates, _) = complete_words(&["adapter", "--logtostderr", ""]);
        assert!(candidates.contains(&"--prometheus-url".to_owned()), "{candidates:?}");
    }

    #[test]
    fn empty_input_lists_the_commands() {
        for words in [&[][..], &[""]] {
            let (candidates, _) = complete_words(words);
            assert!(["explain", "lint"].iter().all(|name| candidates.contains(&(*name).into())));
        }
    }

    #[test]
    fn completions_require_the_name_of_the_completer() {
        let typed_words = |words: &[&str]| typed_words(words.iter().map(OsString::from));
        assert_eq!(typed_words(&["/bin/kubectl_complete-hpa", "ex"]), Some(vec!["ex".to_owned()]));
        assert_eq!(typed_words(&["/bin/kubectl-hpa", "explain"]), None);
    }
}
