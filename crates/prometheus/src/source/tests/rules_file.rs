//! Servers that a rules file names, and changes of the file.

use std::{sync::Arc, time::Duration};

use hpa_metrics::{FixedMapper, MetricSource, resource::GroupResource, test_doubles::resources};
use serde_json::json;

use super::fake::{
    Prometheus, RULES, has_custom, objects, prometheus, request, sample, source_with,
};
use crate::{
    rules::{Compat, Config, config::Server},
    source::{
        PrometheusSettings, PrometheusSource, RulesFile, ServerPermissions, Servers,
        server_mistakes,
    },
};

#[tokio::test]
async fn rule_reads_from_the_server_that_it_names() {
    let (main, other) = (prometheus(), Prometheus::default());
    let definition =
        Server { name: "eu".to_owned(), url: "http://eu".to_owned(), ..Server::default() };
    let mut servers = Servers::new(Some(main.client("main", Compat::Off)), Arc::new(()));
    let client = other.client("eu", Compat::Off);
    servers.named.insert("eu".to_owned(), (definition, client));
    let rules = RULES.replace("seriesQuery: inflight", "seriesQuery: inflight\n  server: eu")
        + "servers: [{name: eu, url: 'http://eu'}]";
    let source = PrometheusSource::new(
        Config::parse(&rules).unwrap(),
        servers,
        PrometheusSettings::default(),
        Arc::new(FixedMapper(resources())),
        Arc::new(objects()),
    );
    other
        .set_series("inflight", &json!([{ "__name__": "inflight", "pod": "p", "namespace": "n" }]));
    let source = source.unwrap();
    source.relist().await.unwrap();
    assert_eq!(other.take_requests(), ["inflight"]);
    let query = r#"max(inflight{namespace="shop",pod="web-0"}) by (pod)"#;
    other.set_vector(query, &json!([sample("web-0", "1")]));
    let values = source.read_custom(request("inflight").named("web-0")).await.unwrap();
    assert_eq!(values.origin.server, "eu");
    assert_eq!(other.take_requests(), [query]);
    let status = source.rule_status();
    assert_eq!((&*status[1].server, &*status[1].server_url), ("eu", "http://eu"));
    assert_eq!((&*status[0].server, &*status[0].server_url), ("main", "http://main"));
}

#[test]
fn all_mistakes_about_servers_are_found() {
    let rules = "servers:
- {name: eu, url: http://eu, headers: [X-Scope-OrgID=shop], timeout: 5s}
- {name: eu, url: http://eu}
- {name: us, url: '127.0.0.1:9090'}
- {name: colon, url: http://a, headers: ['Authorization: Bearer secret']}
- {name: empty, url: http://a, headers: [X-Scope-OrgID]}
- {name: verb, url: http://a, verb: PUT}
- {name: file, url: http://a, tokenFile: /etc/passwd}
- {name: pod, url: http://a, authInCluster: true}
- {name: half, url: http://a, username: me}
- {url: http://a}
rules:
- {seriesQuery: up}
- {seriesQuery: up, server: us}
externalRules:
- {seriesQuery: up, server: asia}
resourceRules: {server: asia}
";
    let permissions =
        ServerPermissions { directory: Some("/creds".into()), service_account: false };
    let mistakes = server_mistakes(&Config::parse(rules).unwrap(), &permissions);
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let expected = [
        (3, "servers[1].name: there are two servers with the name \"eu\""),
        (4, "servers[2].url: the server \"us\" can't be used: the URL"),
        (5, "servers[3].headers: the server \"colon\" can't be used: the header \"Authorization"),
        (6, "servers[4].headers: the server \"empty\" can't be used: the header \"X-Scope"),
        (7, "servers[5].verb: the server \"verb\" can't be used: unsupported"),
        (8, "servers[6].tokenFile: the server \"file\" may not use the file /etc/passwd"),
        (9, "servers[7].authInCluster: the server \"pod\" may not use the service account"),
        (10, "servers[8]: the server \"half\" can't be used: basic authentication needs both"),
        (11, "servers[9]: a server needs a name"),
        (16, "externalRules[0].server: there is no server \"asia\" in `servers`"),
        (17, "resourceRules.server: there is no server \"asia\" in `servers`"),
    ];
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
    for (mistake, (line, start)) in mistakes.iter().zip(expected) {
        let (position, text) = mistake.split_once(": ").unwrap();
        assert!(position.starts_with(&format!("line {line}, ")), "{mistake}");
        assert!(text.starts_with(start), "{mistake}");
    }
}

#[test]
fn unknown_server_is_reported_with_its_position() {
    let config = Config::parse("rules:\n- {seriesQuery: up, server: eu}\n").unwrap();
    let error = Servers::new(None, Arc::new(())).with_config(&config, Compat::Off).err().unwrap();
    assert_eq!(
        error.to_string(),
        r#"line 2, column 29: rules[0].server: there is no server "eu" in `servers`"#
    );
    let config = Config::parse("externalRules:\n- {seriesQuery: up}\n").unwrap();
    let error = Servers::new(None, Arc::new(())).with_config(&config, Compat::Off).err().unwrap();
    assert!(error.to_string().contains("names no `server`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn valid_change_of_the_file_is_used_and_an_invalid_one_refused() {
    let server = prometheus();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yaml");
    std::fs::write(&path, RULES).unwrap();
    let file = RulesFile::read(path.clone()).unwrap();
    let source = Arc::new(source_with(&server, RULES, Compat::Off));
    let task = tokio::spawn({
        let source = source.clone();
        async move { source.run(Some(file)).await }
    });
    let wait_until = async |condition: &dyn Fn() -> bool| {
        let start = tokio::time::Instant::now();
        while !condition() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
        }
    };
    wait_until(&|| has_custom(&source, &GroupResource::pods(), true, "inflight")).await;

    std::fs::write(&path, "rules: [{seriesQueries: x}]").unwrap();
    wait_until(&|| !source.problems().is_empty()).await;
    assert!(
        source.problems()[0].contains("unknown field `seriesQueries`"),
        "{:?}",
        source.problems()
    );
    assert!(has_custom(&source, &GroupResource::pods(), true, "inflight"));

    let renamed =
        RULES.replace("seriesQuery: inflight", "seriesQuery: inflight\n  name: {as: busy}");
    std::fs::write(&path, &renamed).unwrap();
    wait_until(&|| has_custom(&source, &GroupResource::pods(), true, "busy")).await;
    assert!(!has_custom(&source, &GroupResource::pods(), true, "inflight"));
    assert_eq!(source.problems(), [""; 0]);

    std::fs::remove_file(&path).unwrap();
    wait_until(&|| source.has_refused_file()).await;
    assert!(source.problems()[0].starts_with("unable to read the rules file: "));
    assert!(has_custom(&source, &GroupResource::pods(), true, "busy"));
    std::fs::write(&path, &renamed).unwrap();
    wait_until(&|| !source.has_refused_file()).await;
    task.abort();
}

#[tokio::test]
async fn reload_ends_the_wait_for_the_groups_that_it_adds() {
    let source = source_with(&prometheus(), "rules: [{seriesQuery: up}]", Compat::Off);
    let of_file = source.wait_for_groups(|groups| groups.custom).await;
    assert!(!of_file.external, "{of_file:?}");
    let wait = source.wait_for_groups(|groups| groups.external);
    let reload = async { source.reload("externalRules: [{seriesQuery: up}]") };
    let (groups, reloaded) = tokio::join!(wait, reload);
    reloaded.unwrap();
    assert!(groups.external && !groups.custom, "{groups:?}");
}

#[tokio::test]
async fn overrides_are_accepted_before_the_resources_of_the_api_server_are_known() {
    let source = source_with(&prometheus(), RULES, Compat::Reference);
    source.reload(RULES).unwrap();
    let error = source.reload("rules: [{seriesQuery: up, name: {matches: '('}}]").unwrap_err();
    assert_eq!(error.to_string(), "the rules file has an invalid rule");
}
