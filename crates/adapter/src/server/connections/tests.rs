//! Connections that are replaced, or closed because they are idle or unread.

use tokio::time::sleep;

use super::*;

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 6, unknown: 6, authenticated: 2, unread: 4 };
const OK: Bytes = Bytes::from_static(b"ok");

fn address(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn is_closed(connection: &Connection) -> bool {
    connection.close.is_cancelled()
}

fn closed_indices(admitted: &[Arc<Connection>]) -> Vec<usize> {
    (0..admitted.len()).filter(|index| is_closed(&admitted[*index])).collect()
}

fn admit_all(connections: &Arc<Connections>, clients: &[u8]) -> Vec<Arc<Connection>> {
    clients.iter().map(|client| connections.admit(address(*client)).unwrap()).collect()
}

#[test]
fn idle_connections_are_replaced_before_unread_ones() {
    let connections = Connections::new(LIMITS);
    let admitted = admit_all(&connections, &[1; 6]);
    let _running = admitted[0].count_request();
    admitted[1].set_class(ClientClass::Protected);
    let _unread = admitted[2].count_request().track_body(OK);
    drop(admitted[3].count_request());
    let mut newer = Vec::new();
    for expected in [&[4][..], &[4, 5], &[3, 4, 5], &[2, 3, 4, 5]] {
        newer.push(connections.admit(address(1)).unwrap().count_request());
        assert_eq!(closed_indices(&admitted), expected);
    }
    assert!(connections.admit(address(1)).is_none(), "all others are busy or protected");
}

#[test]
fn network_with_most_connections_loses_one() {
    let connections = Connections::new(LIMITS);
    let admitted = admit_all(&connections, &[1, 2, 3, 3, 3, 4]);
    let _next = connections.admit(address(5)).unwrap();
    assert_eq!(closed_indices(&admitted), [2]);
    let _next = connections.admit(address(6)).unwrap();
    assert_eq!(closed_indices(&admitted), [2, 3]);
    let _next = connections.admit(address(7)).unwrap();
    assert_eq!(closed_indices(&admitted), [0, 2, 3], "the oldest if all have one");
}

#[test]
fn unknown_and_authenticated_clients_have_separate_shares() {
    let connections = Connections::new(LIMITS);
    let admitted = admit_all(&connections, &[1, 2, 3, 4, 5, 6]);
    admitted[0].set_class(ClientClass::Authenticated);
    admitted[1].set_class(ClientClass::Authenticated);
    let _next = connections.admit(address(7)).unwrap();
    assert_eq!(closed_indices(&admitted), [2]);
    admitted[3].set_class(ClientClass::Authenticated);
    let _next = connections.admit(address(8)).unwrap();
    assert_eq!(closed_indices(&admitted), [0, 2], "users have more than their share");
}

#[test]
fn unknown_client_above_its_limit_replaces_another_unknown_client() {
    let connections = Connections::new(ConnectionLimits { unknown: 2, ..LIMITS });
    let first = admit_all(&connections, &[1, 2]);
    first[0].set_class(ClientClass::Authenticated);
    let second = admit_all(&connections, &[3, 4]);
    assert_eq!(closed_indices(&first), [1]);
    assert!(closed_indices(&second).is_empty());
    let _running: Vec<_> = second.iter().map(Connection::count_request).collect();
    assert!(connections.admit(address(5)).is_none(), "both have a request in progress");
    second[0].set_class(ClientClass::Protected);
    assert!(connections.admit(address(5)).is_some());
}

#[test]
fn connection_with_most_unread_responses_is_closed() {
    let connections = Connections::new(LIMITS);
    let admitted = admit_all(&connections, &[1, 1, 1]);
    admitted[0].set_class(ClientClass::Protected);
    let _protected: Vec<_> = (0..9).map(|_| admitted[0].count_request().track_body(OK)).collect();
    let mut first: Vec<_> = (0..3).map(|_| admitted[1].count_request().track_body(OK)).collect();
    first.pop();
    let _second: Vec<_> = (0..2).map(|_| admitted[2].count_request().track_body(OK)).collect();
    assert!(closed_indices(&admitted).is_empty(), "one was read");
    let third = admitted[2].count_request().track_body(OK);
    assert_eq!(closed_indices(&admitted), [2]);
    drop((third, first));
    assert_eq!(connections.open.lock().unread_count, 0);
}

fn connection() -> Arc<Connection> {
    Connections::new(LIMITS).admit(address(1)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_request_is_idle_after_32_seconds() {
    let started = Instant::now();
    assert_eq!(connection().expired().await, CloseReason::Idle);
    assert_eq!(started.elapsed(), FIRST_REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn connection_is_idle_90_seconds_after_its_last_request() {
    let started = Instant::now();
    let connection = connection();
    let requests = async {
        for _ in 0..2 {
            let request = connection.count_request();
            sleep(Duration::from_mins(5)).await;
            drop(request.track_body(OK));
            sleep(Duration::from_mins(1)).await;
        }
    };
    let ((reason, idle_after), ()) =
        tokio::join!(async { (connection.expired().await, started.elapsed()) }, requests);
    assert_eq!(reason, CloseReason::Idle);
    assert_eq!(idle_after, Duration::from_mins(11) + IDLE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn connection_expires_60_seconds_after_an_unread_response() {
    let connection = connection();
    let first = connection.count_request().track_body(OK);
    sleep(Duration::from_secs(50)).await;
    let second = connection.count_request().track_body(OK);
    drop(first);
    let started = Instant::now();
    assert_eq!(connection.expired().await, CloseReason::Unread);
    assert!(started.elapsed() <= UNREAD_TIMEOUT + CHECK_INTERVAL, "{:?}", started.elapsed());
    assert!(started.elapsed() >= UNREAD_TIMEOUT);
    drop(second);
}
