//! A plain HTTP client, for requests that a browser would not send.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// The timeout of each wait: more than ten times the expected duration.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client of the dashboard, with a token and a cookie that it accepts.
pub(crate) struct HttpClient {
    pub(crate) host: String,
    pub(crate) token: String,
    pub(crate) cookie: String,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(header, _)| header == name);
        header.map(|(_, value)| value.as_str())
    }
}

impl HttpClient {
    /// Exchanges the token of the printed address for a cookie.
    pub(crate) async fn open(url: &str) -> Self {
        let (host, token) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once("/?token="))
            .expect("a URL");
        let client = Self { host: host.to_owned(), token: token.to_owned(), cookie: String::new() };
        let response = client.request("GET", &format!("/?token={token}"), host, "").await;
        assert_eq!((response.status, response.header("location")), (303, Some("/")));
        let cookie = response.header("set-cookie").expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        Self { cookie, ..client }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request("GET", path, &self.host, &self.cookie).await
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        host: &str,
        cookie: &str,
    ) -> Response {
        let mut stream = self.send(method, path, host, cookie).await;
        let mut bytes = Vec::new();
        let read = async {
            let (status, headers) = read_head(&mut stream).await;
            // The body of an event stream is not read, because it has no end.
            if !headers.iter().any(|(_, value)| value == "text/event-stream") {
                stream.read_to_end(&mut bytes).await.expect("a body");
            }
            (status, headers)
        };
        let (status, headers) = timeout(TIMEOUT, read).await.expect("a response in time");
        Response { status, headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// Opens an event stream.
    pub(crate) async fn stream(&self, path: &str) -> Stream {
        let mut reader = self.send("GET", path, &self.host, &self.cookie).await;
        let (status, _) = read_head(&mut reader).await;
        assert_eq!(status, 200, "{path}");
        Stream { reader }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        host: &str,
        cookie: &str,
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.host).await.expect("a connection");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: \
             close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        BufReader::new(stream)
    }
}

async fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.expect("a line");
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let status = lines[0].split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    (status, headers.collect())
}

/// An open stream of server-sent events.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
}

impl Stream {
    /// Waits for the first message that fulfills the condition.
    pub(crate) async fn until(&mut self, mut condition: impl FnMut(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let wait = async {
            loop {
                let mut line = String::new();
                let read = self.reader.read_line(&mut line).await.expect("a line");
                assert!(read > 0, "the stream ended");
                let Some(data) = line.strip_prefix("data: ") else { continue };
                last = serde_json::from_str(data).expect("JSON");
                if condition(&last) {
                    return;
                }
            }
        };
        let is_in_time = timeout(TIMEOUT, wait).await.is_ok();
        assert!(is_in_time, "no such message; the last one is {last:#}");
        last
    }
}
