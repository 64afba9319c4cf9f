//! Reports progress on standard error: a bar on a terminal, lines elsewhere.

use std::{
    io::{IsTerminal, Write as _},
    time::{Duration, Instant},
};

use hpa_simulate::report::format_duration;
use parking_lot::Mutex;

/// The bar appears after this time.
const BAR_DELAY: Duration = Duration::from_millis(500);
/// Time between two drawings of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines if standard error is not a terminal, and before the first line.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum width of the bar in characters.
const MAX_BAR_WIDTH: usize = 30;
/// On terminals without room for a bar of this width, only the text is printed.
const MIN_BAR_WIDTH: usize = 5;
/// The width of a terminal whose size can't be read.
const DEFAULT_COLUMNS: u16 = 80;

/// The progress of work whose amount is known.
pub(crate) struct Progress {
    /// The expected amount of work.
    total: f64,
    /// The unit of the work, such as `hours`.
    unit: &'static str,
    /// The expected time for all work. It is used until the rate of the work is known.
    expected: Option<Duration>,
    started: Instant,
    is_terminal: bool,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    /// The amount of completed work.
    done: f64,
    /// The time and the amount of the first work. The rate of the work excludes the time before it.
    first: Option<(Duration, f64)>,
    /// The time of the last bar or line, since the start.
    drawn_at: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(total: f64, unit: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            total,
            unit,
            expected: None,
            started: Instant::now(),
            is_terminal,
            state: Mutex::default(),
        }
    }

    /// Sets the time that all work is expected to take.
    pub(crate) fn expecting(self, duration: Duration) -> Self {
        Self { expected: Some(duration), ..self }
    }

    /// Counts completed work, and draws the bar if it is due. The work can exceed the total.
    pub(crate) fn add(&self, work: f64) {
        let mut state = self.state.lock();
        state.count(work, self.started.elapsed());
        self.draw(&mut state);
    }

    /// Draws the bar if it is due. Call this during work that is not counted yet.
    pub(crate) fn refresh(&self) {
        self.draw(&mut self.state.lock());
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if self.is_terminal && self.state.lock().drawn_at.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Draws the bar or line if it is due.
    fn draw(&self, state: &mut ProgressState) {
        let elapsed = self.started.elapsed();
        if !self.is_due(state, elapsed) {
            return;
        }
        state.drawn_at = Some(elapsed);
        // A failed write must not stop the work.
        let mut output = std::io::stderr();
        if self.is_terminal {
            let size = terminal_size::terminal_size_of(&output);
            let columns = size.map_or(DEFAULT_COLUMNS, |(width, _)| width.0);
            let _ = write!(output, "\r{}\x1b[K", self.bar(state, elapsed, columns.into()));
        } else {
            let _ = writeln!(output, "{}", self.line(state, elapsed));
        }
    }

    fn is_due(&self, state: &ProgressState, elapsed: Duration) -> bool {
        let (delay, interval) = if self.is_terminal {
            (BAR_DELAY, BAR_INTERVAL)
        } else {
            (LINE_INTERVAL, LINE_INTERVAL)
        };
        elapsed >= state.drawn_at.map_or(delay, |drawn_at| drawn_at + interval)
    }

    /// The completed share of the work, from 0 to 1.
    fn share(&self, state: &ProgressState) -> f64 {
        if self.total > 0.0 { (state.done / self.total).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// The text about the progress, such as `25 % (10/40 variants), 30s left`.
    fn line(&self, state: &ProgressState, elapsed: Duration) -> String {
        let mut left = state.left_suffix(self.total, elapsed);
        if left.is_empty()
            && let Some(expected) = self.expected
        {
            let seconds = expected.saturating_sub(elapsed).as_secs_f64();
            left = format!(", about {} left", format_duration(seconds));
        }
        let done = state.done.min(self.total);
        let share = self.share(state) * 100.0;
        format!("{share:.0} % ({done:.0}/{:.0} {}){left}", self.total, self.unit)
    }

    /// A line with the bar. It is shorter than the terminal, because terminals wrap full lines.
    fn bar(&self, state: &ProgressState, elapsed: Duration, columns: usize) -> String {
        let share = self.share(state);
        let mut text = self.line(state, elapsed);
        text = text.chars().take(columns.saturating_sub(1)).collect();
        let room = columns.saturating_sub(text.chars().count() + "[] ".len() + 1);
        let width = room.min(MAX_BAR_WIDTH);
        if width < MIN_BAR_WIDTH {
            return text;
        }
        let filled = (0..width).filter(|cell| (*cell as f64) < share * width as f64).count();
        format!("[{:<width$}] {text}", "#".repeat(filled))
    }
}

impl ProgressState {
    /// Counts completed work.
    fn count(&mut self, work: f64, elapsed: Duration) {
        self.done += work;
        self.first.get_or_insert((elapsed, self.done));
    }

    /// The end of the line: the remaining time, that the work is almost done, or nothing until the
    /// rate of the work is known.
    fn left_suffix(&self, total: f64, elapsed: Duration) -> String {
        if self.done >= total {
            return ", almost done".to_owned();
        }
        let Some((since, first)) = self.first else { return String::new() };
        let rate = (self.done - first) / elapsed.saturating_sub(since).as_secs_f64();
        if rate.is_finite() && rate > 0.0 {
            format!(", {} left", format_duration((total - self.done) / rate))
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The state after 10 s without work, and then `done` variants, one per second.
    fn state(done: u32) -> ProgressState {
        let mut state = ProgressState::default();
        for second in 1..=done {
            state.count(1.0, SECOND * (10 + second));
        }
        state
    }

    fn bar(done: u32, columns: usize) -> String {
        let progress = Progress::new(40.0, "variants");
        progress.bar(&state(done), SECOND * (10 + done), columns)
    }

    #[test]
    fn time_left_excludes_the_time_before_the_first_work() {
        assert_eq!(bar(10, 80), "[########                      ] 25 % (10/40 variants), 30s left");
        assert_eq!(bar(0, 80), "[                              ] 0 % (0/40 variants)");
        assert_eq!(bar(1, 80), "[#                             ] 2 % (1/40 variants)");
    }

    #[test]
    fn expected_time_is_shown_until_the_rate_is_known() {
        let progress = Progress::new(40.0, "runs").expecting(SECOND * 7200);
        let line = |done: u32| progress.line(&state(done), SECOND * (10 + done));
        assert_eq!(line(0), "0 % (0/40 runs), about 1h59m left");
        assert!(line(1).ends_with(", about 1h59m left"), "{}", line(1));
        assert_eq!(line(10), "25 % (10/40 runs), 30s left");
    }

    #[test]
    fn bar_stays_within_the_total() {
        let expected = "[##############################] 100 % (40/40 variants), almost done";
        assert_eq!(bar(45, 80), expected);
    }

    #[test]
    fn bar_is_shorter_than_the_terminal() {
        for columns in 0..100 {
            let bar = bar(10, columns);
            assert!(bar.chars().count() < columns.max(1), "{columns}: {bar}");
        }
        assert_eq!(bar(10, 50), "[####           ] 25 % (10/40 variants), 30s left");
        assert_eq!(bar(10, 36), "25 % (10/40 variants), 30s left");
    }

    #[test]
    fn line_is_printed_every_ten_seconds_without_a_terminal() {
        let progress = Progress { is_terminal: false, ..Progress::new(40.0, "variants") };
        let mut state = state(10);
        assert!(!progress.is_due(&state, SECOND * 9));
        assert!(progress.is_due(&state, SECOND * 20));
        assert_eq!(progress.line(&state, SECOND * 20), "25 % (10/40 variants), 30s left");
        state.drawn_at = Some(SECOND * 20);
        assert!(!progress.is_due(&state, SECOND * 29) && progress.is_due(&state, SECOND * 30));
    }
}
