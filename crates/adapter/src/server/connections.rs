//! Tracks the open connections of a server. Chooses which one to close if there are too many, and
//! detects idle clients and clients that don't read responses.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{response::hold_until_sent, reviews::network};

/// The time limit for the first request of a connection.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(32);

/// The time limit between requests, as in kube-apiserver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The time limit for reading a response.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum interval between checks whether a connection has expired.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The limits of open connections and unread responses.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub connections: usize,
    /// Connections without valid credentials yet. The limit bounds the memory that they can
    /// use.
    pub unknown: usize,
    /// Up to this number, connections of authenticated users are replaced only if no connection of
    /// an unknown client can be.
    pub authenticated: usize,
    /// Unread responses, except on connections of front proxies.
    pub unread: usize,
}

/// The open connections of a server.
///
/// Above the limit, a new connection replaces another one, because idle clients and clients that
/// don't read must not block others. Unknown clients and users have separate shares. Within a
/// share, the network with the most replaceable connections loses one: the connection that has been
/// idle longest or, if all have unread responses, that changed least recently. Connections of front
/// proxies and connections with a request in progress aren't replaceable. `admission` limits these
/// requests.
pub struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    by_id: HashMap<u64, ConnectionEntry>,
    /// The sum of [`ConnectionEntry::limited_unread`].
    unread_count: usize,
    /// The number of changes, which orders them.
    sequence: u64,
}

/// The kind of a connection's client, from the lowest to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientClass {
    /// No request had valid credentials yet.
    Unknown,
    /// A request had valid credentials.
    Authenticated,
    /// A front proxy. Never replaced.
    Protected,
}

struct ConnectionEntry {
    class: ClientClass,
    /// The client's IPv4 address, or the /64 of its IPv6 address.
    network: IpAddr,
    /// Requests without a response.
    running: usize,
    /// The times of the unread responses by sequence number. The first one is the oldest.
    unread: BTreeMap<u64, Instant>,
    /// The sequence number of the last change.
    changed: u64,
    /// The time at which the connection has been idle for too long.
    deadline: Instant,
    close: CancellationToken,
}

impl ConnectionEntry {
    /// The number of unread responses that count towards [`ConnectionLimits::unread`].
    fn limited_unread(&self) -> usize {
        match self.class {
            ClientClass::Protected => 0,
            ClientClass::Unknown | ClientClass::Authenticated => self.unread.len(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    Idle,
    Unread,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default() })
    }

    /// Adds a connection. `None` if there are too many, in total or of unknown clients, and none
    /// can be replaced.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        let limits = self.limits;
        let is_full = open.by_id.len() >= limits.connections;
        let is_unknown_full = open.count(ClientClass::Unknown) >= limits.unknown;
        let has_room = if is_unknown_full {
            open.close_one_of(ClientClass::Unknown)
        } else {
            !is_full || open.close_one(limits)
        };
        if !has_room {
            return None;
        }
        let id = open.next_sequence();
        let close = CancellationToken::new();
        let entry = ConnectionEntry {
            class: ClientClass::Unknown,
            network: network(client),
            running: 0,
            unread: BTreeMap::new(),
            changed: id,
            deadline: Instant::now() + FIRST_REQUEST_TIMEOUT,
            close: close.clone(),
        };
        open.by_id.insert(id, entry);
        Some(Arc::new(Connection { connections: self.clone(), id, client, close }))
    }
}

impl OpenConnections {
    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn count(&self, class: ClientClass) -> usize {
        self.by_id.values().filter(|entry| entry.class == class).count()
    }

    /// Closes a connection to make room for a new one. Returns `false` if none is replaceable.
    fn close_one(&mut self, limits: ConnectionLimits) -> bool {
        let classes = if self.count(ClientClass::Authenticated) > limits.authenticated {
            [ClientClass::Authenticated, ClientClass::Unknown]
        } else {
            [ClientClass::Unknown, ClientClass::Authenticated]
        };
        classes.into_iter().any(|class| self.close_one_of(class))
    }

    fn close_one_of(&mut self, class: ClientClass) -> bool {
        let candidates =
            || self.by_id.iter().filter(|(_, entry)| entry.class == class && entry.running == 0);
        let mut by_network: HashMap<IpAddr, usize> = HashMap::new();
        for (_, entry) in candidates() {
            *by_network.entry(entry.network).or_default() += 1;
        }
        let replaced = candidates().min_by_key(|(_, entry)| {
            let connections = by_network.get(&entry.network).copied();
            (Reverse(connections), !entry.unread.is_empty(), entry.changed)
        });
        let id = replaced.map(|(id, _)| *id);
        id.is_some_and(|id| self.close(id))
    }

    /// Closes connections until the unread responses are within the limit.
    fn limit_unread(&mut self, limit: usize) {
        while self.unread_count > limit {
            let entries = self.by_id.iter();
            let slowest =
                entries.min_by_key(|(_, entry)| (Reverse(entry.limited_unread()), entry.changed));
            let Some(id) = slowest.map(|(id, _)| *id) else { return };
            self.close(id);
        }
    }

    fn close(&mut self, id: u64) -> bool {
        self.remove(id).inspect(|entry| entry.close.cancel()).is_some()
    }

    fn remove(&mut self, id: u64) -> Option<ConnectionEntry> {
        let entry = self.by_id.remove(&id)?;
        self.unread_count -= entry.limited_unread();
        Some(entry)
    }

    /// Changes a connection, unless it was removed or closed.
    fn update(&mut self, id: u64, change: impl FnOnce(&mut ConnectionEntry)) {
        let sequence = self.next_sequence();
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        self.unread_count -= entry.limited_unread();
        change(entry);
        entry.changed = sequence;
        self.unread_count += entry.limited_unread();
    }
}

/// An open connection. Dropping it removes it.
pub struct Connection {
    connections: Arc<Connections>,
    id: u64,
    client: IpAddr,
    close: CancellationToken,
}

impl Connection {
    /// The address of the client.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Waits until the connection is evicted, to make room for another one or because it has the
    /// most unread responses. The caller must then close it.
    pub async fn evicted(&self) {
        self.close.cancelled().await;
    }

    /// Sets the class of the connection, unless the current one is higher.
    pub fn set_class(&self, class: ClientClass) {
        let mut open = self.connections.open.lock();
        if open.by_id.get(&self.id).is_some_and(|entry| class > entry.class) {
            open.update(self.id, |entry| entry.class = class);
        }
    }

    /// Counts a request as running until its response or its drop.
    pub fn count_request(self: &Arc<Self>) -> RunningRequest {
        self.connections.open.lock().update(self.id, |entry| entry.running += 1);
        RunningRequest { connection: self.clone(), response: None }
    }

    /// Waits until the client has been idle, or hasn't read a response, for too long. Also returns
    /// if the connection was evicted, then with `Idle`.
    pub(crate) async fn expired(&self) -> CloseReason {
        loop {
            let now = Instant::now();
            let next_check = {
                let open = self.connections.open.lock();
                let Some(entry) = open.by_id.get(&self.id) else { return CloseReason::Idle };
                if entry.unread.values().next().is_some_and(|ready| now >= *ready + UNREAD_TIMEOUT)
                {
                    return CloseReason::Unread;
                }
                match entry.running + entry.unread.len() {
                    0 if now >= entry.deadline => return CloseReason::Idle,
                    0 => entry.deadline,
                    _ => now + CHECK_INTERVAL,
                }
            };
            // A request may start while this task sleeps.
            sleep_until(next_check.min(now + CHECK_INTERVAL)).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.id);
    }
}

/// A request until its response has been sent: first in progress, then with an unread response.
pub struct RunningRequest {
    connection: Arc<Connection>,
    /// The key of the response in [`ConnectionEntry::unread`].
    response: Option<u64>,
}

impl RunningRequest {
    /// Counts the response as unread from now on. If there are too many, closes the connections
    /// with the most unread responses, except those of front proxies.
    pub fn count_response(&mut self) {
        let connections = &self.connection.connections;
        let mut open = connections.open.lock();
        let response = open.next_sequence();
        open.update(self.connection.id, |entry| {
            entry.running -= 1;
            entry.unread.insert(response, Instant::now());
        });
        self.response = Some(response);
        open.limit_unread(connections.limits.unread);
    }

    /// Returns the bytes of the response, and counts it as unread until they have been sent.
    pub fn track_body(mut self, bytes: Bytes) -> Bytes {
        if self.response.is_none() {
            self.count_response();
        }
        hold_until_sent(bytes, self)
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let response = self.response;
        self.connection.connections.open.lock().update(self.connection.id, |entry| {
            match response {
                Some(response) => drop(entry.unread.remove(&response)),
                None => entry.running -= 1,
            }
            entry.deadline = Instant::now() + IDLE_TIMEOUT;
        });
    }
}
