//! Access control: only the user who started the dashboard can read it, and no other web site can.
//!
//! The dashboard reads the cluster with the user's permissions, and every user of the machine can
//! connect to its port. The printed address therefore has a token, which the browser exchanges for
//! a cookie. Requests without the cookie are rejected, and so are requests whose `Host` header is
//! not a loopback name. Otherwise, another site could resolve its own name to this address and read
//! the responses (DNS rebinding).

use parking_lot::Mutex;
use uuid::Uuid;

/// The tokens of a running dashboard.
pub(crate) struct Access {
    /// Valid while the dashboard runs.
    token: String,
    /// Valid once, because other users can see it among the arguments of the browser. `None` once
    /// used.
    launch_token: Mutex<Option<String>>,
    /// Contains the port, because all ports of a host share cookies.
    cookie_name: String,
}

impl Access {
    pub(crate) fn new(port: u16) -> Self {
        let token = || Uuid::new_v4().simple().to_string();
        Self {
            token: token(),
            launch_token: Mutex::new(Some(token())),
            cookie_name: format!("hpa-dashboard-{port}"),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The token for the browser that the command starts. `None` once it was used.
    pub(crate) fn launch_token(&self) -> Option<String> {
        self.launch_token.lock().clone()
    }

    /// Exchanges a token for the value of a `Set-Cookie` header. This invalidates a launch token.
    /// `None` if the token is invalid.
    pub(crate) fn cookie_for(&self, token: &str) -> Option<String> {
        let mut launch_token = self.launch_token.lock();
        let is_launch_token = launch_token.as_deref() == Some(token);
        if is_launch_token {
            launch_token.take();
        }
        // With Strict, the browser omits the cookie after the redirect if the link was opened from
        // another site, such as a web chat.
        let cookie =
            || format!("{}={}; HttpOnly; SameSite=Lax; Path=/", self.cookie_name, self.token);
        (is_launch_token || token == self.token).then(cookie)
    }

    /// Whether a `Cookie` header has the cookie of this dashboard.
    pub(crate) fn has_valid_cookie(&self, cookies: &str) -> bool {
        let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie_name && value == self.token)
    }
}

/// Whether a `Host` header names loopback. Any port is accepted, because a forwarded port can
/// differ from the dashboard's.
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || ["127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:8080", true)]
    #[case("127.0.0.1", true)]
    #[case("localhost:1", true)]
    #[case("LOCALHOST", true)]
    #[case("[::1]:8080", true)]
    #[case("[::1]", true)]
    #[case("attacker.example:8080", false)]
    #[case("127.0.0.1.attacker.example", false)]
    #[case("localhost.attacker.example:8080", false)]
    #[case("127.0.0.1:80@attacker.example", false)]
    #[case("localhost:", true)]
    #[case("", false)]
    #[case("127.0.0.2", false)]
    fn host_must_be_loopback(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_loopback(host), expected, "{host:?}");
    }

    #[test]
    fn token_is_exchanged_for_a_cookie() {
        let access = Access::new(8080);
        let cookie = access.cookie_for(access.token()).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Lax; Path=/"), "{cookie}");
        let pair = cookie.split(';').next().unwrap();
        assert!(access.has_valid_cookie(pair));
        assert!(access.has_valid_cookie(&format!("theme=dark; {pair}; a=b")));
        assert!(!Access::new(8081).has_valid_cookie(pair), "another dashboard has other tokens");
        for cookies in ["", "hpa-dashboard-8080", "hpa-dashboard-8080=", "hpa-dashboard-8080=x"] {
            assert!(!access.has_valid_cookie(cookies), "{cookies}");
        }
        assert_eq!(access.cookie_for(""), None);
    }

    #[test]
    fn launch_token_is_valid_once() {
        let access = Access::new(8080);
        let token = access.launch_token().unwrap();
        assert_ne!(token, access.token());
        assert!(access.cookie_for(&token).is_some());
        assert_eq!((access.cookie_for(&token), access.launch_token()), (None, None));
    }
}
