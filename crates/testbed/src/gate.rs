use tokio::sync::watch;

/// Holds requests back until its [`Release`] is dropped. Clones share the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    closed: watch::Receiver<()>,
}

/// Opens the [`Gate`] when dropped.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Release {
    _open: watch::Sender<()>,
}

impl Gate {
    /// A closed gate, and the guard that opens it.
    pub fn new() -> (Self, Release) {
        let (open, closed) = watch::channel(());
        (Self { closed }, Release { _open: open })
    }

    /// Waits until the gate opens.
    pub async fn pass(mut self) {
        // Nothing is ever sent, so `changed` fails once the sender is dropped.
        while self.closed.changed().await.is_ok() {}
    }
}

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        self.closed.same_channel(&other.closed)
    }
}

impl Eq for Gate {}
