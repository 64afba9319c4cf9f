//! A session with a running `hpa dashboard`.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::Child,
    time::timeout,
};

/// Timeout of every wait, more than ten times the expected duration.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

pub(crate) struct DashboardSession {
    pub(crate) host: String,
    cookie: String,
}

impl DashboardSession {
    /// Reads the address that the program prints, and exchanges its token for a cookie.
    pub(crate) async fn log_in(child: &mut Child) -> Self {
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = timeout(TIMEOUT, lines.next_line()).await.expect("in time");
        let line = line.expect("UTF-8").expect("a line");
        let address = line.strip_prefix("The dashboard is at http://").expect("an address");
        let (host, token) = address.split_once("/?token=").expect("a token");
        let mut session = Self { host: host.to_owned(), cookie: String::new() };
        let granted = session.read_until(&format!("/?token={token}"), "\r\n\r\n").await;
        let cookie = granted.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next()).expect("a cookie");
        cookie.clone_into(&mut session.cookie);
        session
    }

    /// Sends a request, and reads the response until it contains a text.
    pub(crate) async fn read_until(&self, path: &str, text: &str) -> String {
        let Self { host, cookie } = self;
        let mut stream = TcpStream::connect(host).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut response = String::new();
        let read = async {
            while !response.contains(text) {
                let mut buffer = [0; 4096];
                let length = stream.read(&mut buffer).await.expect("a response");
                assert!(length > 0, "{text:?} is not in {response}");
                response.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        };
        timeout(TIMEOUT, read).await.unwrap_or_else(|_| panic!("no {text:?} in time"));
        response
    }
}
