//! Tests of the collector for SQS, with credentials from all supported sources. One test needs moto
//! (`moto_server` in `PATH`).

use std::{
    collections::HashMap,
    process::{Child, Command, Stdio},
};

use jiff::ToSpan;
use rstest::rstest;
use tokio::net::TcpStream;

use super::*;

#[path = "../../../../tests/support/programs.rs"]
#[allow(unreachable_pub, reason = "a file of the library of the test suites")]
mod programs;

/// Responds like SQS, and like the AWS services that return credentials.
fn aws_reply(request: &str) -> Reply {
    let target = |action| request.contains(&format!("x-amz-target: AmazonSQS.{action}\r\n"));
    let path = request.split(' ').nth(1).unwrap();
    let end = (now() + 1.hour()).to_string();
    let document = format!(
        r#"{{"AccessKeyId":"AKIDROLE","SecretAccessKey":"key",
            "Token":"session","Expiration":"{end}"}}"#
    );
    match path {
        _ if target("GetQueueUrl") => ok(r#"{"QueueUrl":"https://sqs.test/1/orders"}"#),
        _ if target("GetQueueAttributes") => {
            ok(r#"{"Attributes":{"ApproximateNumberOfMessages":"7",
                "ApproximateNumberOfMessagesNotVisible":"20",
                "ApproximateNumberOfMessagesDelayed":"300"}}"#)
        }
        "/latest/api/token" => ok("metadata-token"),
        "/latest/meta-data/iam/security-credentials/" => ok("node-role\n"),
        "/latest/meta-data/iam/security-credentials/node-role" | "/container" => ok(&document),
        _ if request.contains("Action=AssumeRoleWithWebIdentity") => ok(&format!(
            "<R><Credentials><AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>key\
             </SecretAccessKey><SessionToken>session</SessionToken><Expiration>{end}</Expiration>\
             </Credentials></R>"
        )),
        _ => with_status(404, ""),
    }
}

fn clients(server: &str, variables: &[(&str, &str)]) -> Clients {
    let mut variables: HashMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.replace("URL", server)))
        .collect();
    for service in ["SQS", "STS"] {
        variables.insert(format!("AWS_ENDPOINT_URL_{service}"), server.to_owned());
    }
    let clients = Clients::new(settings(), Arc::new(FakeCluster::default())).unwrap();
    clients.map_http(|http| http.with_environment(move |name| variables.get(name).cloned()))
}

const KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn queue(values: &[(&str, &str)]) -> CollectorPlan {
    let settings = [("queue-name", "orders"), ("region", "eu-west-1")];
    external("sqs-queue-length", &[&settings, values].concat())
}

#[rstest]
#[case(&[], 7)]
#[case(&[("in-flight", "true")], 27)]
#[case(&[("delayed", "true")], 307)]
#[case(&[("in-flight", "true"), ("delayed", "true")], 327)]
#[case(&[("in-flight", "false")], 7)]
#[tokio::test]
async fn configured_kinds_of_messages_are_counted(
    #[case] values: &[(&str, &str)],
    #[case] expected: i64,
) {
    let server = Server::start(aws_reply).await;
    let clients = clients(&server.url("/"), &KEYS);
    let plan = queue(values);
    assert_eq!(milli(fetch_with(&clients, &plan).await), expected * 1000);
    assert_eq!(milli(fetch_with(&clients, &plan).await), expected * 1000);
    // The URL of the queue is resolved once.
    assert_eq!(server.requests().len(), 3);
    let request = &server.requests()[1];
    assert!(
        request.contains(
            "authorization: AWS4-HMAC-SHA256 \
             Credential=AKIDENV/20261122/eu-west-1/sqs/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature="
        ),
        "{request}"
    );
    assert!(request.contains("content-type: application/x-amz-json-1.0\r\n"), "{request}");
    assert!(request.contains(r#""QueueUrl":"https://sqs.test/1/orders""#), "{request}");
}

#[rstest]
#[case::service_account(&[("AWS_WEB_IDENTITY_TOKEN_FILE", "FILE"), ("AWS_ROLE_ARN", "arn:r")], 1)]
#[case::container(&[
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "URLcontainer"),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "FILE"),
], 1)]
#[case::instance(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "URL")], 3)]
#[tokio::test]
async fn credentials_of_a_role_are_used_until_they_expire(
    #[case] variables: &[(&str, &str)],
    #[case] requests: usize,
) {
    let server = Server::start(aws_reply).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "file-token\n").unwrap();
    let path = file.path().to_str().unwrap();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (*name, value.replace("FILE", path))).collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let clients = clients(&server.url("/"), &variables);
    let target = target();
    let read = async |now| {
        let context = Context::new(&clients, "shop", &target, now);
        milli(queue(&[]).read(&context).await)
    };
    assert_eq!(read(now()).await, 7000);
    assert_eq!(read(now() + 54.minutes()).await, 7000);
    assert_eq!(server.requests().len(), requests + 3);
    let signed = &server.requests()[requests];
    assert!(signed.contains("Credential=AKIDROLE/"), "{signed}");
    assert!(signed.contains("x-amz-security-token: session\r\n"), "{signed}");
    // Credentials are replaced five minutes before they expire.
    assert_eq!(read(now() + 56.minutes()).await, 7000);
    assert_eq!(server.requests().len(), 2 * requests + 4);
    let sent_token = server.requests()[..requests].iter().any(|request| {
        request.contains("WebIdentityToken=file-token")
            || request.contains("authorization: file-token\r\n")
            || request.contains("x-aws-ec2-metadata-token: metadata-token\r\n")
    });
    assert!(sent_token, "{:?}", server.requests());
}

#[rstest]
#[case::none(("AWS_EC2_METADATA_DISABLED", "true"), "a credential for AWS is not configured")]
#[case::other_case(("AWS_EC2_METADATA_DISABLED", "True"), "a credential for AWS is not configured")]
#[case::invalid_url(
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "ftp://a.org/"),
    "the endpoint URL of the AWS service for credentials is invalid"
)]
#[tokio::test]
async fn missing_source_of_credentials_or_its_invalid_url_is_an_error(
    #[case] variable: (&str, &str),
    #[case] expected: &str,
) {
    let server = Server::start(aws_reply).await;
    let clients = clients(&server.url("/"), &[variable]);
    assert_eq!(error(fetch_with(&clients, &queue(&[])).await), expected);
}

#[rstest]
#[case(
    with_status(400, r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"secret"}"#),
    "SQS refuses the query: QueueDoesNotExist"
)]
#[case(with_status(403, "<secret>"), "unsuccessful response: 403 Forbidden")]
#[case(ok("{}"), "unexpected response of SQS: the body can't be decoded")]
#[tokio::test]
async fn refused_requests_are_errors_without_details(#[case] reply: Reply, #[case] expected: &str) {
    let server = Server::start(move |_| reply.clone()).await;
    let error = error(fetch_with(&clients(&server.url("/"), &KEYS), &queue(&[])).await);
    assert!(error.ends_with(expected), "{error}");
}

#[rstest]
#[case::missing(r#"{"Other": "7"}"#, "missing")]
#[case::negative(r#"{"ApproximateNumberOfMessages": "-5"}"#, "negative or no whole number")]
#[case::last_of_two(
    r#"{"ApproximateNumberOfMessages": "7", "ApproximateNumberOfMessages": "-1"}"#,
    "negative or no whole number"
)]
#[case::fraction(r#"{"ApproximateNumberOfMessages": "3.7"}"#, "negative or no whole number")]
#[case::exponent(r#"{"ApproximateNumberOfMessages": "1e308"}"#, "negative or no whole number")]
#[tokio::test]
async fn attribute_that_is_no_number_of_messages_is_an_error(
    #[case] attributes: &str,
    #[case] problem: &str,
) {
    let reply =
        ok(&format!(r#"{{"QueueUrl": "https://sqs.test/1/q", "Attributes": {attributes}}}"#));
    let server = Server::start(move |_| reply.clone()).await;
    let error = error(fetch_with(&clients(&server.url("/"), &KEYS), &queue(&[])).await);
    let expected = format!("unexpected response of SQS: the length of the queue is {problem}");
    assert_eq!(error, expected);
}

#[rstest]
#[case::url("orders", 2000)]
#[case::name(&"q".repeat(2000), 20)]
#[tokio::test]
async fn long_name_or_url_is_refused_and_not_cached(#[case] name: &str, #[case] url_len: usize) {
    let url = "u".repeat(url_len);
    let attributes = r#"{"ApproximateNumberOfMessages": "7"}"#;
    let reply = ok(&format!(r#"{{"QueueUrl": "{url}", "Attributes": {attributes}}}"#));
    let server = Server::start(move |_| reply.clone()).await;
    let clients = clients(&server.url("/"), &KEYS);
    let plan = external("sqs-queue-length", &[("queue-name", name), ("region", "eu-west-1")]);
    let error = error(fetch_with(&clients, &plan).await);
    assert!(error.ends_with("the queue's name or URL is longer than 1 KiB"), "{error}");
    assert!(clients.queue_urls.lock().is_empty());
    assert_eq!(server.requests().len(), 1);
}

struct Moto {
    process: Child,
    url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Starts moto, if it is installed.
async fn moto() -> Option<Moto> {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let process = Command::new("moto_server")
        .args(["-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let missing = |_: &std::io::Error| programs::skip("moto", "there is no moto_server in PATH");
    let process = process.inspect_err(missing).ok()?;
    let mut moto = Moto { process, url: format!("http://127.0.0.1:{port}/") };
    for _ in 0..600 {
        // The program may be a pyenv shim of an inactive version, which exits.
        if let Ok(Some(status)) = moto.process.try_wait() {
            programs::skip("moto", format_args!("moto_server doesn't run: {status}"));
            return None;
        }
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Some(moto);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("moto_server doesn't listen");
}

#[tokio::test]
async fn queue_of_moto_is_read() {
    let Some(moto) = moto().await else { return };
    let clients = clients(&moto.url, &KEYS);
    let queue_url = format!("{}123456789012/orders", moto.url);
    let missing = error(fetch_with(&clients, &queue(&[])).await);
    assert!(missing.starts_with("SQS refuses the query: "), "{missing}");
    for body in [
        "Action=CreateQueue&QueueName=orders".to_owned(),
        format!("Action=SendMessage&MessageBody=a&QueueUrl={queue_url}"),
        format!("Action=SendMessage&MessageBody=b&QueueUrl={queue_url}"),
        format!("Action=SendMessage&MessageBody=c&DelaySeconds=900&QueueUrl={queue_url}"),
        format!("Action=ReceiveMessage&QueueUrl={queue_url}"),
    ] {
        send_action(&moto.url, &body).await;
    }
    assert_eq!(milli(fetch_with(&clients, &queue(&[])).await), 1000);
    let all = queue(&[("in-flight", "true"), ("delayed", "true")]);
    assert_eq!(milli(fetch_with(&clients, &all).await), 3000);
}

/// Sends a request in the older protocol of SQS. Its signature is invalid, but moto doesn't check
/// it.
async fn send_action(url: &str, body: &str) {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\
         content-type: application/x-www-form-urlencoded\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=A/20261122/eu-west-1/sqs/aws4_request, \
         SignedHeaders=host, Signature=x\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}
