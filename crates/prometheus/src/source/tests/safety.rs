//! Limits on what a server can send, and on what a rules file can name.

use std::sync::Arc;

use hpa_metrics::{Catalog, FixedMapper, resource::GroupResource, test_doubles::resources};
use serde_json::{Value, json};

use super::fake::{RULES, create_source, has_custom, objects, prometheus, request, source_with};
use crate::{
    rules::{Compat, Config},
    source::{PrometheusSettings, ServerPermissions, Servers},
};

#[tokio::test]
async fn readiness_reasons_contain_no_text_of_the_server() {
    let server = prometheus();
    let redirection = json!("http://me:secret@elsewhere:90/secret?a=secret");
    server.set_answer("http_requests_total", 302, redirection);
    let error = |kind: &str| json!({ "status": "error", "errorType": kind, "error": "secret" });
    server.set_answer("inflight", 422, error("execution"));
    server.set_answer("queue_length", 422, error("secret"));
    let source = source_with(&server, RULES, Compat::Off);
    assert_eq!(source.readiness(), Err(vec!["no discovery has succeeded yet".to_owned()]));
    source.relist().await.unwrap_err();
    let reasons = [
        "rules[0]: unknown response code 302",
        "rules[1]: Prometheus reported execution",
        "externalRules[0]: Prometheus reported an error",
    ];
    assert_eq!(source.readiness().unwrap_err(), reasons);
    let problem = &source.problems()[0];
    assert!(problem.contains("redirects to http://elsewhere:90; configure"), "{problem}");
    assert!(!problem.contains("secret"), "{problem}");

    server.set_answer("inflight", 200, json!({ "secret": "secret" }));
    source.reload("rules: [{seriesQueries: secret}]").unwrap_err();
    source.relist().await.unwrap_err();
    let reasons = source.readiness().unwrap_err();
    assert_eq!(reasons[0], "the rules file is invalid or unreadable");
    assert_eq!(reasons[2], "rules[1]: the response isn't a response of Prometheus");
    let text = source.undiscovered(&request("inflight").into()).unwrap();
    let expected = "the metrics of rules are not discovered yet: the rules file is invalid or \
                    unreadable; Prometheus at http://main: unknown response code 302; Prometheus \
                    at http://main: the response isn't a response of Prometheus; Prometheus at \
                    http://main: Prometheus reported an error";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn rule_with_too_many_series_keeps_its_previous_ones() {
    let pods = GroupResource::pods();
    let limited = |max_series_bytes, max_series_names| PrometheusSettings {
        max_series_bytes,
        max_series_names,
        ..PrometheusSettings::default()
    };
    let by_bytes = "rules[1]: the list of series is longer than 400 bytes \
                    (--metrics-max-series-bytes): select fewer series in seriesQuery";
    let by_names = "rules[1]: the series have more than 3 names with different sets of labels \
                    (--metrics-max-series-names): select fewer series in seriesQuery";
    for (settings, too_many, problem) in
        [(limited(400, 100), 8, by_bytes), (limited(4000, 3), 4, by_names)]
    {
        let server = prometheus();
        let (mapper, objects) = (Arc::new(FixedMapper(resources())), Arc::new(objects()));
        let source = create_source(&server, RULES, settings, mapper, objects);
        source.relist().await.unwrap();
        let many = |count: u32| {
            let series = (0..count).map(|index| {
                let name = format!("inflight_{index:02}");
                json!({ "__name__": name, "namespace": "shop", "pod": "web-0" })
            });
            Value::Array(series.collect())
        };
        server.set_series("inflight", &many(too_many));
        source.relist().await.unwrap_err();
        assert_eq!(source.problems(), [problem]);
        assert!(has_custom(&source, &pods, true, "inflight"), "the last series");
        assert!(has_custom(&source, &pods, true, "http_requests_total"), "the other rules");
        assert!(!has_custom(&source, &pods, true, "inflight_00"));

        server.set_series("inflight", &many(3));
        source.relist().await.unwrap();
        assert!(has_custom(&source, &pods, true, "inflight_00"), "as many as are allowed");
    }
}

#[test]
fn servers_of_the_file_use_only_permitted_credentials() {
    let refused = |field: &str, permissions: &ServerPermissions| {
        let config = Config::parse(&format!("servers:\n- name: eu\n  url: http://eu\n  {field}\n"));
        let servers = Servers::new(None, Arc::new(())).permitting(permissions.clone());
        let servers = servers.with_config(&config.unwrap(), Compat::Off);
        servers.err().map(|error| error.to_string())
    };
    let no_permissions = ServerPermissions::default();
    let all_permissions =
        ServerPermissions { directory: Some("/etc/hpa/credentials".into()), service_account: true };
    for (field, pair) in [
        ("authConfig", ""),
        ("caFile", ""),
        ("tokenFile", ""),
        ("passwordFile", "\n  username: me"),
        ("clientTLSCertFile", "\n  clientTLSKeyFile: /etc/hpa/credentials/x"),
        ("clientTLSKeyFile", "\n  clientTLSCertFile: /etc/hpa/credentials/x"),
    ] {
        let line = format!("{field}: /var/run/secrets/kubernetes.io/serviceaccount/token{pair}");
        let error = refused(&line, &all_permissions).expect(field);
        let expected = format!(
            "line 4, column {}: servers[0].{field}: the server \"eu\" may not use the file \
             /var/run/secrets/kubernetes.io/serviceaccount/token: its files must be in \
             /etc/hpa/credentials (--metrics-config-credentials)",
            field.len() + 5
        );
        assert_eq!(error, expected);
        assert!(
            refused(&line, &no_permissions).expect(field).contains("permits no file"),
            "{field}"
        );
        let line = format!("{field}: eu/token{pair}");
        assert_eq!(refused(&line, &all_permissions), None, "{field}");
        assert!(refused(&line, &no_permissions).is_some(), "{field}");
    }
    let error = refused("authInCluster: true", &no_permissions).expect("refused");
    let expected = "line 4, column 18: servers[0].authInCluster: the server \"eu\" may not use the \
                    service account of the pod, unless --metrics-config-auth-incluster permits it \
                    to all servers of the file";
    assert_eq!(error, expected);
    assert_eq!(refused("authInCluster: true", &all_permissions), None);
    assert_eq!(refused("authInCluster: false", &no_permissions), None);
}

/// A program that writes the file in place empties it first.
#[tokio::test]
async fn changed_file_without_rules_is_refused() {
    let source = source_with(&prometheus(), RULES, Compat::Off);
    let groups = source.groups();
    for text in ["", "rules: []", "# later"] {
        let error = source.reload(text).unwrap_err();
        assert_eq!(error.to_string(), "the rules file has no rules");
        assert!(source.has_refused_file());
        assert_eq!(source.groups(), groups, "{text}");
    }
    source.reload(RULES).unwrap();
    assert!(!source.has_refused_file());
}
