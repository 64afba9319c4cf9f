//! Drives a headless Chromium with the `DevTools` protocol, over pipes.

use std::{process::Stdio, time::Duration};

use hpa_tests::programs;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The timeout of each wait: more than ten times the expected duration.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts the browser, which reads the protocol from descriptor 3 and writes it to descriptor 4.
const START_SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#;

/// A tab in its own browser process.
pub(crate) struct Tab {
    _process: Child,
    _profile: TempDir,
    requests: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Whether the page has loaded since the last navigation.
    is_loaded: bool,
    /// Uncaught exceptions and errors of the console, such as violations of the content security
    /// policy.
    pub(crate) errors: Vec<String>,
}

/// The name or path of Chromium. If there is none, prints that the test is skipped and returns
/// `None`, or panics if `HPA_REQUIRE` names `chromium`.
pub(crate) fn find_program() -> Option<String> {
    let is_program = |name: &&&str| hpa_tests::find_in_path(name).is_some();
    let configured = std::env::var("CHROMIUM").ok().filter(|path| !path.is_empty());
    let program = configured.or_else(|| PROGRAMS.iter().find(is_program).map(ToString::to_string));
    if program.is_none() {
        programs::skip("chromium", "there is no chromium in PATH, and CHROMIUM names none");
    }
    program
}

impl Tab {
    pub(crate) async fn new(program: &str) -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        command
            .args(["-c", START_SCRIPT, "sh", program, "--headless", "--remote-debugging-pipe"])
            .args([
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        let mut process = command
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the browser starts");
        let requests = process.stdin.take().expect("a pipe");
        let messages = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut tab = Self {
            _process: process,
            _profile: profile,
            requests,
            messages,
            session: None,
            last_id: 0,
            is_loaded: false,
            errors: Vec::new(),
        };
        let target = tab.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = tab.call("Target.attachToTarget", attach).await;
        tab.session = attached["sessionId"].as_str().map(ToOwned::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        tab
    }

    /// Calls a method of the protocol, and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).await.expect("the browser reads");
        let response = timeout(TIMEOUT, self.wait_for_response(id));
        let response = response.await.unwrap_or_else(|_| panic!("no response to {method}"));
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    async fn wait_for_response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next_message().await;
            if message["id"] == id {
                return message;
            }
            self.handle_event(&message);
        }
    }

    async fn wait_until_loaded(&mut self) {
        while !self.is_loaded {
            let event = self.next_message().await;
            self.handle_event(&event);
        }
    }

    async fn next_message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.messages.read_until(0, &mut bytes).await.expect("the browser writes");
        assert_eq!(bytes.pop(), Some(0), "the browser has exited");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn handle_event(&mut self, event: &Value) {
        self.is_loaded |= event["method"] == "Page.loadEventFired";
        let params = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(params.to_string());
        }
    }

    /// Evaluates an expression, and awaits it if it is a promise.
    pub(crate) async fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params).await;
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a JavaScript condition holds. Checks it after each change of the document.
    pub(crate) async fn wait_for(&mut self, condition: &str) {
        let wait = format!(
            "new Promise((resolve) => {{
                const holds = () => {{ try {{ return {condition}; }} catch {{ return false; }} }};
                if (holds()) return resolve(true);
                const observer = new MutationObserver(() => {{
                    if (holds()) {{ observer.disconnect(); resolve(true); }}
                }});
                observer.observe(document, {{
                    subtree: true, childList: true, characterData: true, attributes: true,
                }});
            }})"
        );
        assert_eq!(self.evaluate(&wait).await, true, "{condition}");
    }

    /// Opens a URL, and waits until a condition holds.
    pub(crate) async fn open(&mut self, url: &str, condition: &str) {
        self.is_loaded = false;
        let navigation = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(navigation.get("errorText").is_none(), "{url}: {navigation}");
        // A navigation within the document has no loader. Otherwise, scripts would run in the
        // previous page until the new one has loaded.
        if navigation.get("loaderId").is_some() {
            let loaded = timeout(TIMEOUT, self.wait_until_loaded());
            loaded.await.unwrap_or_else(|_| panic!("{url} is not loaded"));
        }
        self.wait_for(condition).await;
    }

    /// Presses a key: `Enter`, or one that types a character.
    pub(crate) async fn press(&mut self, key: &str) {
        let (text, code) = if key == "Enter" { ("\r", 13) } else { (key, 0) };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "text": text,
                "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", params).await;
        }
    }

    /// Sets the size of the window and the color scheme.
    pub(crate) async fn set_appearance(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// A picture of the whole page, as PNG in base64.
    pub(crate) async fn screenshot(&mut self) -> String {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", params).await;
        picture["data"].as_str().expect("a picture").to_owned()
    }
}
