//! Opens a page in the user's browser.

use std::process::{Command, Stdio};

/// Opens an address, if there is a desktop. The address was printed, so a failure is not reported.
pub(super) fn open(address: &str) {
    let Some(program) = opener(|name| std::env::var_os(name).is_some_and(|text| !text.is_empty()))
    else {
        return;
    };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // Some openers last as long as the browser.
        std::thread::spawn(move || child.wait());
    }
}

/// The program that opens a page; `None` without a desktop, where `xdg-open` would start a browser
/// in the terminal.
fn opener(has_variable: impl Fn(&str) -> bool) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let is_desktop =
        ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].into_iter().any(has_variable);
    is_desktop.then_some("xdg-open")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn browser_is_opened_only_on_a_desktop() {
        assert_eq!(opener(|_| false), None);
        assert_eq!(opener(|name| name == "WAYLAND_DISPLAY"), Some("xdg-open"));
    }
}
