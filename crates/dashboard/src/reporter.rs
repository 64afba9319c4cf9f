//! Reports each outage when it starts, changes and ends.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use hpa_controller::Clock;
use tokio::sync::watch;

use crate::model::{Board, Outage};

/// Reports outages in sentences, for a terminal.
pub struct Reporter {
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    changed: watch::Receiver<u64>,
    /// The reported outages that have not ended, by subject.
    reported: BTreeMap<String, Outage>,
    /// The reported sentences about what the page doesn't show.
    notes: BTreeSet<String>,
    /// The sentences to return next.
    pending: VecDeque<String>,
}

impl Reporter {
    pub(crate) fn new(board: Arc<Board>, clock: Arc<dyn Clock>) -> Self {
        let changed = board.subscribe();
        Self {
            board,
            clock,
            changed,
            reported: BTreeMap::new(),
            notes: BTreeSet::new(),
            pending: VecDeque::new(),
        }
    }

    /// Waits for the start, a change or the end of an outage, or a note about what the page doesn't
    /// show. Returns a sentence about it, without a full stop.
    pub async fn next_sentence(&mut self) -> String {
        loop {
            if let Some(sentence) = self.pending.pop_front() {
                return sentence;
            }
            self.changed.borrow_and_update();
            self.collect_sentences();
            if self.pending.is_empty() && self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn collect_sentences(&mut self) {
        let (outages, notes) = self.board.outages();
        // Until all lists have been read, an outage that is not in `outages` may go on.
        if !self.board.is_reading() {
            let is_down = self.board.is_down();
            let is_over = |outage: &Outage| {
                !is_down && outages.iter().all(|current| current.subject != outage.subject)
            };
            let now = self.clock.now();
            self.pending.extend(
                self.reported.values().filter(|one| is_over(one)).map(|one| one.end_sentence(now)),
            );
            self.reported.retain(|_, outage| !is_over(outage));
        }
        for outage in outages {
            match self.reported.get_mut(&outage.subject) {
                Some(reported) if reported.kind == outage.kind => {}
                Some(reported) => {
                    reported.kind = outage.kind;
                    self.pending.push_back(outage.text);
                }
                None => {
                    self.pending.push_back(outage.text.clone());
                    self.reported.insert(outage.subject.clone(), outage);
                }
            }
        }
        for note in notes {
            if self.notes.insert(note.clone()) {
                self.pending.push_back(note.trim_end_matches('.').to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Settings, settings::SettingPolicy};
    use hpa_controller::{AutoscalerApi, SystemClock};
    use jiff::Timestamp;

    use super::*;
    use crate::model::{FailureKind, Update};

    #[tokio::test]
    async fn outage_is_reported_when_it_begins_changes_and_ends() {
        let api = AutoscalerApi::Core;
        let board = Arc::new(Board::new(&[api], Settings::default(), SettingPolicy::default()));
        let mut reporter = Reporter::new(board.clone(), Arc::new(SystemClock::default()));
        let now = Timestamp::now();
        let down = |kind: FailureKind, cause: &str| {
            board.mark_down(now, |since| Outage {
                subject: "S".to_owned(),
                kind: Some(kind),
                since,
                text: format!("S {kind}: {cause}"),
            });
        };
        board.set_note(api, "Only one namespace is shown.".to_owned());
        down(FailureKind::Unreachable, "refused");
        assert_eq!(reporter.next_sentence().await, "S has been unreachable: refused");
        down(FailureKind::Unreachable, "reset");
        down(FailureKind::ServerError, "expired");
        assert_eq!(reporter.next_sentence().await, "S has failed: expired");
        board.mark_up(now);
        board.update(Update::Replace(api, Vec::new()), now);
        let end = reporter.next_sentence().await;
        assert!(end.starts_with("S can be read again as of "), "{end}");
        assert_eq!(reporter.next_sentence().await, "Only one namespace is shown");
    }
}
