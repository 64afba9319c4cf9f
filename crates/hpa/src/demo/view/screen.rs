//! Draws on the terminal and restores it.

use std::io::{self, IsTerminal, Write, stdout};

use super::line::Line;
use crate::terminal::has_color;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Starts a synchronized update: terminals that support it draw the frame at once, without flicker.
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";
/// Columns and rows of a terminal that doesn't report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Whether standard output is a terminal that understands escape sequences.
pub(super) fn is_available() -> bool {
    stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// The alternate screen. Dropping it, or a panic of the main thread, restores the terminal.
pub(crate) struct Screen {
    has_color: bool,
}

impl Screen {
    /// Switches to the alternate screen. Installs a panic hook that leaves it if the main thread
    /// panics.
    pub(super) fn enter() -> io::Result<Self> {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A panic of another thread doesn't end the demo.
            if std::thread::current().name() == Some("main") {
                leave();
            }
            previous(info);
        }));
        let mut out = stdout().lock();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(Self { has_color: has_color() })
    }

    /// Draws as many of the lines as fit.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let (columns, rows) = size();
        let visible = lines.iter().take(rows).map(|line| line.render(columns, self.has_color));
        let body = visible.map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\r\n");
        let mut out = stdout().lock();
        write!(out, "{BEGIN_UPDATE}\x1b[H{body}\x1b[J{END_UPDATE}")?;
        out.flush()
    }

    /// Restores the terminal, then prints the lines on it.
    pub(super) fn close(self, lines: &[Line]) -> io::Result<()> {
        let has_color = self.has_color;
        drop(self);
        let (columns, _) = size();
        let mut out = stdout().lock();
        for line in lines {
            writeln!(out, "{}", line.render(columns, has_color))?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn leave() {
    let mut out = stdout().lock();
    // An error means that the terminal is gone.
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
}

/// Columns and rows of the terminal.
pub(super) fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size_of(stdout());
    size.map(|(columns, rows)| (usize::from(columns.0), usize::from(rows.0)))
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
        .unwrap_or(DEFAULT_SIZE)
}
