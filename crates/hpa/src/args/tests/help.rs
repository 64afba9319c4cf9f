//! Help texts, and the collectors in docs/keda.md.

use std::collections::BTreeMap;

use super::*;

/// Adds the subcommands of a command at `path`, and theirs, each by its path: `rules check`.
fn add_subcommands(command: &ClapCommand, path: &str, found: &mut BTreeMap<String, ClapCommand>) {
    for subcommand in command.get_subcommands() {
        let path = format!("{path} {}", subcommand.get_name()).trim_start().to_owned();
        add_subcommands(subcommand, &path, found);
        found.insert(path, subcommand.clone());
    }
}

fn commands_by_path() -> BTreeMap<String, ClapCommand> {
    let mut found = BTreeMap::new();
    add_subcommands(&Arguments::command(), "", &mut found);
    assert!(found.len() > 20, "{found:?}");
    found
}

#[test]
fn examples_fit_a_terminal_of_80_columns() {
    for (path, command) in commands_by_path() {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let too_long: Vec<&str> =
            examples.lines().filter(|line| line.chars().count() > 79).collect();
        assert_eq!(too_long, Vec::<&str>::new(), "{path}");
    }
}

#[test]
fn flags_without_a_group_have_no_heading() {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("run");
    for flag in ["dry_run", "threads", "shutdown_grace_period"] {
        let argument = run.get_arguments().find(|argument| argument.get_id() == flag);
        assert_eq!(argument.expect(flag).get_help_heading(), None, "{flag}");
    }
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_all_flags() {
    let mut too_long = Vec::new();
    for (path, command) in commands_by_path() {
        let help = |flag: &str| {
            let words = ["hpa"].into_iter().chain(path.split(' ')).chain([flag]);
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let help = Arguments::try_parse_checked(&words).expect_err("help ends the program");
            help.to_string()
        };
        let (short, full) = (help("-h"), help("--help"));
        let is_wide = short.lines().any(|line| line.chars().count() > 120);
        if short.lines().count() > 24 || is_wide {
            too_long.push(short.clone());
        }
        assert!(short.contains("Usage: hpa "), "{short}");
        let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for flag in visible.filter_map(clap::Arg::get_long) {
            assert!(full.contains(&format!("--{flag}")), "{path} --{flag}");
        }
    }
    assert!(
        too_long.is_empty(),
        "{} texts are too long:\n{}",
        too_long.len(),
        too_long.join("\n---\n")
    );
}

#[test]
fn main_flags_exist() {
    let commands = commands_by_path();
    for (path, flags) in MAIN_FLAGS {
        let command = commands.get(path).expect(path);
        for flag in flags.split(' ') {
            let has_flag = |argument: &clap::Arg| argument.get_long() == Some(flag);
            assert!(command.get_arguments().any(has_flag), "{path} --{flag}");
        }
    }
}

#[test]
fn keda_page_names_all_collectors() {
    let collectors = include_str!("../../../../../docs/collectors.md");
    let keda = include_str!("../../../../../docs/keda.md");
    let table =
        collectors.split("| collector | is on with |\n|---|---|\n").nth(1).expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let names = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split(", "));
    let names: Vec<_> = names.map(str::trim).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(keda.contains(name), "{name:?} is not in docs/keda.md");
    }
}
