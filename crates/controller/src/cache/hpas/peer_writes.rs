//! The status writes of another controller, a peer, for one autoscaler.

use parking_lot::Mutex;

use crate::k8s::StatusWrite;

/// The peer's last status write. Without a peer, it takes no memory on the heap.
#[derive(Debug, Default)]
pub(crate) struct PeerWrites(Mutex<Option<Box<LastWrite>>>);

#[derive(Debug)]
struct LastWrite {
    write: StatusWrite,
    /// Whether the next reconcile reports this write.
    is_new: bool,
    /// Whether a reconcile has taken a write of this manager, and no other manager has written
    /// since.
    is_known_manager: bool,
}

/// A peer's status write that no reconcile has reported yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerWrite {
    pub(crate) write: StatusWrite,
    /// Whether it is the first write of this manager that is taken, or the first after another
    /// manager's.
    pub(crate) is_first: bool,
}

impl PeerWrites {
    /// Stores the newest write in a version of the autoscaler. If that is the first version that
    /// this process sees, the write doesn't count as new: a controller that has been replaced may
    /// have made it.
    pub(crate) fn observe(&self, write: StatusWrite, is_first_version: bool) {
        let mut stored = self.0.lock();
        match stored.as_mut() {
            Some(last) if write.at <= last.write.at => {}
            Some(last) => {
                last.is_known_manager &= last.write.manager == write.manager;
                last.is_new = true;
                last.write = write;
            }
            None => {
                let is_new = !is_first_version;
                *stored = Some(Box::new(LastWrite { write, is_new, is_known_manager: false }));
            }
        }
    }

    pub(crate) fn last(&self) -> Option<StatusWrite> {
        self.0.lock().as_ref().map(|last| last.write.clone())
    }

    /// The last write, if no reconcile has taken it yet.
    pub(crate) fn take_new(&self) -> Option<PeerWrite> {
        let mut last = self.0.lock();
        let last = last.as_mut().filter(|last| last.is_new)?;
        last.is_new = false;
        let is_first = !std::mem::replace(&mut last.is_known_manager, true);
        Some(PeerWrite { write: last.write.clone(), is_first })
    }

    /// Marks the last write as taken, so that the next reconcile ignores it.
    pub(crate) fn ignore_past(&self) {
        if let Some(last) = self.0.lock().as_mut() {
            last.is_new = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn write(manager: &str, second: i64) -> StatusWrite {
        let at = Timestamp::from_second(second).expect("a time");
        StatusWrite { manager: manager.into(), at }
    }

    fn taken(writes: &PeerWrites) -> Option<(i64, bool)> {
        writes.take_new().map(|taken| (taken.write.at.as_second(), taken.is_first))
    }

    #[test]
    fn each_later_write_is_new_once() {
        let writes = PeerWrites::default();
        writes.observe(write("kcm", 1), true);
        assert_eq!(taken(&writes), None, "it was written before this process started");
        writes.observe(write("kcm", 2), false);
        writes.observe(write("kcm", 1), false);
        assert_eq!((taken(&writes), taken(&writes)), (Some((2, true)), None));
        writes.observe(write("kcm", 3), false);
        assert_eq!(taken(&writes), Some((3, false)));
        writes.observe(write("k3s", 4), false);
        assert_eq!(taken(&writes), Some((4, true)), "another manager");
        assert_eq!(writes.last(), Some(write("k3s", 4)));
    }

    #[test]
    fn first_write_after_the_first_version_is_new() {
        let writes = PeerWrites::default();
        writes.observe(write("kcm", 1), false);
        assert_eq!(taken(&writes), Some((1, true)));
    }

    #[test]
    fn ignored_writes_are_not_new() {
        let writes = PeerWrites::default();
        writes.observe(write("kcm", 1), false);
        writes.ignore_past();
        assert_eq!(taken(&writes), None);
        writes.observe(write("kcm", 2), false);
        assert_eq!(taken(&writes), Some((2, true)));
    }
}
