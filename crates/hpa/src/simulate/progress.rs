//! A progress bar on a terminal.

use std::{
    io::{IsTerminal, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Work that takes less time shows no bar.
const MIN_TIME: Duration = Duration::from_millis(500);
const REFRESH: Duration = Duration::from_millis(100);
const WIDTH: u32 = 30;

/// How much of the work is done. The bar goes to standard error, if that is a terminal.
pub(crate) struct Progress {
    total: f64,
    unit: &'static str,
    started: Instant,
    is_shown: bool,
    state: Mutex<State>,
}

struct State {
    done: f64,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(total: f64, unit: &'static str) -> Self {
        let state = Mutex::new(State { done: 0.0, drawn: None });
        let is_shown = std::io::stderr().is_terminal();
        Self { total, unit, started: Instant::now(), is_shown, state }
    }

    /// Counts work as done, and draws the bar now and then.
    pub(crate) fn add(&self, work: f64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += work;
        let is_due = state.drawn.is_none_or(|drawn| drawn.elapsed() >= REFRESH);
        if self.is_shown && is_due && self.started.elapsed() >= MIN_TIME {
            state.drawn = Some(Instant::now());
            // Without a terminal to draw on, the work goes on.
            let _ = write!(std::io::stderr(), "\r{}", self.bar(state.done, self.started.elapsed()));
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn bar(&self, done: f64, elapsed: Duration) -> String {
        let share = if self.total > 0.0 { (done / self.total).clamp(0.0, 1.0) } else { 1.0 };
        let filled = (0..WIDTH).filter(|cell| f64::from(*cell) < share * f64::from(WIDTH)).count();
        let left = elapsed.as_secs_f64() * (1.0 / share.max(0.001) - 1.0);
        format!(
            "[{:<width$}] {:.0}/{:.0} {}, {:.0}s left \x1b[K",
            "#".repeat(filled),
            done,
            self.total,
            self.unit,
            left,
            width = WIDTH as usize,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_shows_share_and_time_left() {
        let progress = Progress::new(40.0, "variants");
        let bar = progress.bar(10.0, Duration::from_secs(5));
        assert!(
            bar.starts_with("[########                      ] 10/40 variants, 15s left"),
            "{bar}"
        );
        assert!(progress.bar(80.0, Duration::from_secs(1)).contains("0s left"));
    }
}
