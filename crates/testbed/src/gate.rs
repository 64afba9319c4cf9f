use tokio::sync::watch;

/// What a held request waits at; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    closed: watch::Receiver<()>,
}

/// Opens a [`Gate`] when it is dropped.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Release {
    _open: watch::Sender<()>,
}

impl Gate {
    /// A closed gate and what opens it.
    pub fn new() -> (Self, Release) {
        let (open, closed) = watch::channel(());
        (Self { closed }, Release { _open: open })
    }

    /// Returns when the gate is open.
    pub async fn pass(mut self) {
        // Nothing is ever sent: an error is the end of the sender.
        while self.closed.changed().await.is_ok() {}
    }
}

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        self.closed.same_channel(&other.closed)
    }
}

impl Eq for Gate {}
