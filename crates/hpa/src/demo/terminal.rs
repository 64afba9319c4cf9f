//! The screen of a terminal, which is given back as it was.

use std::io::{self, IsTerminal, Write, stdout};

use super::text::Line;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// A terminal that knows these shows all that is between them at once.
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";
/// What a terminal that does not tell its size is taken for.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Whether there is a terminal that can show a live view.
pub(crate) fn is_there() -> bool {
    stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// The screen as long as it lives. However it ends but by SIGKILL, the terminal is as it was.
pub(crate) struct Screen {
    has_color: bool,
}

impl Screen {
    /// Takes the screen.
    pub(crate) fn enter() -> io::Result<Self> {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // That of another thread does not end the demonstration.
            if std::thread::current().name() == Some("main") {
                leave();
            }
            previous(info);
        }));
        let mut out = stdout().lock();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { has_color })
    }

    /// Shows lines, as far as they have room.
    pub(crate) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let (columns, rows) = size();
        let shown = lines.iter().take(rows).map(|line| line.render(columns, self.has_color));
        let body = shown.map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\r\n");
        let mut out = stdout().lock();
        write!(out, "{BEGIN_UPDATE}\x1b[H{body}\x1b[J{END_UPDATE}")?;
        out.flush()
    }

    /// Gives the screen back and leaves these lines on it.
    pub(crate) fn close(self, lines: &[Line]) -> io::Result<()> {
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
    // If the terminal is gone, so is its state.
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
}

/// Columns and rows.
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(USUAL_SIZE, |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
