//! Help texts, and the collectors in docs/keda.md.

use super::*;

#[test]
fn examples_fit_a_terminal_of_80_columns() {
    for command in Arguments::command().get_subcommands() {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let too_long: Vec<&str> =
            examples.lines().filter(|line| line.chars().count() > 79).collect();
        assert_eq!(too_long, Vec::<&str>::new(), "{}", command.get_name());
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

/// Collects the paths of all subcommands.
fn collect_paths(command: &ClapCommand, path: &[String], paths: &mut Vec<Vec<String>>) {
    for subcommand in command.get_subcommands() {
        let path = [path, &[subcommand.get_name().to_owned()]].concat();
        collect_paths(subcommand, &path, paths);
        paths.push(path);
    }
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_all_flags() {
    let mut paths = Vec::new();
    collect_paths(&Arguments::command(), &[], &mut paths);
    assert!(paths.len() > 20, "{paths:?}");
    let mut too_long = Vec::new();
    for path in paths {
        let help = |flag: &str| {
            let words = ["hpa".to_owned()].into_iter().chain(path.clone()).chain([flag.to_owned()]);
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
        let mut command = &Arguments::command();
        for name in &path {
            command = command.find_subcommand(name).expect("a command");
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let flag = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
            assert!(full.contains(&flag), "{path:?} {flag}");
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
    let program = Arguments::command();
    for (path, flags) in MAIN_FLAGS {
        let mut command = &program;
        for name in path.split(' ') {
            command = command.find_subcommand(name).expect(path);
        }
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
