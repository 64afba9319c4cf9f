//! The limits of a connection, which depend on its client: trusted, another user, or unknown.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
};

use http::request::Parts;
use parking_lot::Mutex;

use super::{
    connections::{ClientClass, Connection},
    read_rate::ReadBudget,
};
use crate::{
    authentication::{KnownClient, Peer},
    response::{Reply, bodiless_too_many_requests},
    reviews::{FairLimit, FairPermit, Flow},
    service::Adapter,
};

/// The rate at which the connection of an unknown client is read.
const UNKNOWN_BYTES_PER_SECOND: u32 = 16 << 10;

/// The rate at which all connections of a user together are read. It suffices for more than a
/// hundred requests a second, also if each repeats its token.
const USER_BYTES_PER_SECOND: u32 = 256 << 10;

/// The users' connections, except those of front proxies and of `system:masters`.
pub(super) struct UserConnections {
    limit: Arc<FairLimit>,
    budgets: Mutex<HashMap<Flow, Arc<ReadBudget>>>,
}

/// A connection within its user's share of [`UserConnections`].
struct UserConnection {
    budget: Arc<ReadBudget>,
    _permit: FairPermit,
}

/// A client with valid credentials.
enum AdmittedClient {
    Trusted,
    User(UserConnection),
}

/// The client of a connection.
///
/// A user's connection above the user's share keeps the limits of an unknown client until another
/// connection of the user ends. Its requests are refused if they have to wait.
pub(super) struct Client {
    peer: Arc<Peer>,
    users: Arc<UserConnections>,
    unknown_budget: Arc<ReadBudget>,
    admitted: OnceLock<AdmittedClient>,
}

impl UserConnections {
    /// Half of the limit is available to a single user.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: FairLimit::new(limit), budgets: Mutex::default() })
    }

    /// `None` if the user's share is used up.
    fn admit(&self, user: Flow) -> Option<UserConnection> {
        let permit = self.limit.try_acquire(user, 1)?;
        let mut budgets = self.budgets.lock();
        // A budget in use or in debt is kept. Otherwise, a user would get another one by connecting
        // again.
        budgets.retain(|_, budget| Arc::strong_count(budget) > 1 || budget.is_in_debt());
        let budget = budgets.entry(user).or_insert_with(|| ReadBudget::new(USER_BYTES_PER_SECOND));
        Some(UserConnection { budget: budget.clone(), _permit: permit })
    }
}

impl Client {
    pub(super) fn new(peer: Arc<Peer>, users: Arc<UserConnections>, is_front_proxy: bool) -> Self {
        let admitted = OnceLock::new();
        if is_front_proxy {
            admitted.set(AdmittedClient::Trusted).ok();
        }
        Self { peer, users, unknown_budget: ReadBudget::new(UNKNOWN_BYTES_PER_SECOND), admitted }
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Responds to a request. Once the request is authenticated, the connection has the class of a
    /// user. If the connection is above the user's share, and the request has to wait, the response
    /// is 429.
    pub(super) async fn respond(
        &self,
        adapter: &Adapter,
        head: &Parts,
        connection: &Connection,
    ) -> Reply {
        let mut response = pin!(adapter.respond(head, &self.peer));
        poll_fn(|context| {
            let polled = response.as_mut().poll(context);
            if self.try_admit().is_some() {
                connection.set_class(ClientClass::Authenticated);
            } else if polled.is_pending() && self.peer.known().is_some() {
                // While the request waits, the connection would take the place of an unknown client
                // and couldn't be replaced.
                return Poll::Ready(bodiless_too_many_requests());
            }
            polled
        })
        .await
    }

    /// The budget for reading from the client. `None` if there is no limit.
    pub(super) fn read_budget(&self) -> Option<Arc<ReadBudget>> {
        match self.try_admit() {
            None => Some(self.unknown_budget.clone()),
            Some(AdmittedClient::Trusted) => None,
            Some(AdmittedClient::User(user)) => Some(user.budget.clone()),
        }
    }

    /// Admits the client once a request had valid credentials. `None` before that, and while the
    /// user's share of connections is used up.
    fn try_admit(&self) -> Option<&AdmittedClient> {
        if self.admitted.get().is_none() {
            let admitted = match self.peer.known()? {
                KnownClient::Trusted => AdmittedClient::Trusted,
                KnownClient::User(user) => AdmittedClient::User(self.users.admit(user)?),
            };
            self.admitted.set(admitted).ok();
        }
        self.admitted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reviews::User;

    fn client(users: &Arc<UserConnections>, known: Option<KnownClient>) -> Client {
        let peer = Arc::new(Peer::new([127, 0, 0, 1].into(), Vec::new()));
        if let Some(known) = known {
            peer.set_known(known);
        }
        Client::new(peer, users.clone(), false)
    }

    fn account(name: &str) -> KnownClient {
        let user = User::new(&format!("system:serviceaccount:{name}"), &[]);
        KnownClient::User(Flow::of_user(&user))
    }

    fn have_one_budget(clients: [&Client; 2]) -> bool {
        let [first, second] = clients.map(|client| client.read_budget().unwrap());
        Arc::ptr_eq(&first, &second)
    }

    #[tokio::test(start_paused = true)]
    async fn user_above_the_share_of_connections_has_the_limits_of_an_unknown_client() {
        let users = UserConnections::new(4);
        let unknown = client(&users, None);
        assert!(unknown.try_admit().is_none() && unknown.read_budget().is_some());
        let first = client(&users, Some(account("shop:a")));
        let second = client(&users, Some(account("shop:b")));
        let third = client(&users, Some(account("shop:c")));
        let admitted = [&first, &second, &third].map(|client| client.try_admit().is_some());
        assert_eq!(admitted, [true, true, false], "half of the limit for a namespace");
        assert!(client(&users, Some(account("api:a"))).try_admit().is_some(), "another user");
        let trusted = client(&users, Some(KnownClient::Trusted));
        assert!(trusted.try_admit().is_some() && trusted.read_budget().is_none());
        assert!(have_one_budget([&first, &second]) && !have_one_budget([&first, &third]));
        drop(first);
        assert!(third.try_admit().is_some(), "a connection of the namespace has ended");
        assert!(have_one_budget([&second, &third]));
    }

    #[tokio::test(start_paused = true)]
    async fn user_gets_no_other_budget_by_connecting_again() {
        let users = UserConnections::new(4);
        let is_paused = |name| {
            let budget = client(&users, Some(account(name))).read_budget().unwrap();
            budget.paused_until().is_some()
        };
        let budget = client(&users, Some(account("shop:a"))).read_budget().unwrap();
        budget.count(1 << 20);
        drop(budget);
        assert!(is_paused("shop:a") && is_paused("shop:b") && !is_paused("api:a"));
        tokio::time::advance(std::time::Duration::from_secs(4)).await;
        assert!(!is_paused("shop:a"));
        assert_eq!(users.budgets.lock().len(), 1, "budgets without debt are dropped");
    }
}
