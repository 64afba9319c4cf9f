//! Credentials from files.

use std::{path::Path, sync::Arc, time::Duration};

use crate::client::{ConnectionError, Settings, connection::Connector, parse_header};

fn connector(settings: Settings) -> Connector {
    Connector::new(Arc::new(settings), Arc::new(|_| None))
}

async fn authorization(connector: &Connector) -> String {
    let connection = connector.connection().await.unwrap();
    let headers = connection.headers.get_all("authorization").iter();
    headers.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(";")
}

/// Writes a file and sets its age. Without the age, file systems with times in seconds would hide
/// the change.
fn write(path: &Path, content: &str, age: Duration) {
    std::fs::write(path, content).unwrap();
    let modified = std::time::SystemTime::now() - age;
    std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[tokio::test(start_paused = true)]
async fn rotated_token_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    write(&token_file, "first\n", Duration::from_secs(100));
    let settings = Settings::new("p", "http://p").unwrap();
    let connector = connector(Settings { token_file: Some(token_file.clone()), ..settings });
    assert_eq!(authorization(&connector).await, "Bearer first");

    write(&token_file, "other\n", Duration::from_secs(50));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(authorization(&connector).await, "Bearer other");

    std::fs::remove_file(&token_file).unwrap();
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(authorization(&connector).await, "Bearer other", "the previous one stays");
}

#[tokio::test]
async fn configured_authorization_header_takes_precedence_over_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "token").unwrap();
    let settings = Settings {
        headers: vec![parse_header("Authorization=Basic x").unwrap()],
        token_file: Some(token_file),
        ..Settings::new("p", "http://p").unwrap()
    };
    assert_eq!(authorization(&connector(settings)).await, "Basic x");
}

#[tokio::test]
async fn password_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let password_file = dir.path().join("password");
    std::fs::write(&password_file, "secret\n").unwrap();
    let settings = Settings {
        username: Some("me".to_owned()),
        password_file: Some(password_file),
        ..Settings::new("p", "http://p").unwrap()
    };
    assert_eq!(authorization(&connector(settings)).await, "Basic bWU6c2VjcmV0");
}

#[tokio::test]
async fn credentials_of_the_url_are_used() {
    let settings = Settings::new("p", "http://me:s%40crt@p").unwrap();
    // me:s@crt
    assert_eq!(authorization(&connector(settings)).await, "Basic bWU6c0BjcnQ=");
}

#[tokio::test]
async fn missing_file_is_named() {
    let settings = Settings::new("p", "http://p").unwrap();
    let settings = Settings { token_file: Some("/nonexistent/token".into()), ..settings };
    let Err(error) = connector(settings).connection().await else { panic!("no error") };
    assert!(matches!(error, ConnectionError::File { .. }));
    assert_eq!(error.to_string(), "unable to read the token file /nonexistent/token");
}
