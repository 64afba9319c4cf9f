use rstest::rstest;

use super::*;

fn parsed(text: &str) -> Config {
    Config::parse(text).unwrap()
}

fn field_errors(text: &str) -> Vec<String> {
    match Config::parse(text) {
        Err(ConfigError::Fields(FieldErrors { errors, .. })) => {
            errors.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The target of the override of a label.
fn target<'r>(rule: &'r DiscoveryRule, label: &str) -> &'r OverrideTarget {
    let mut overrides = rule.resources.overrides.iter();
    overrides.find(|(known, _)| *known == label).unwrap().1
}

#[test]
fn all_fields_are_read() {
    let config = parsed(
        r#"
rules:
- seriesQuery: '{__name__=~"^http_.*"}'
  seriesFilters: [{is: a}, {isNot: b}]
  resources:
    template: kube_<<.Resource>>
    overrides:
      ns: {resource: namespace}
      dep: {group: apps, resource: deployments}
    namespaced: no
  name: {matches: ^(.*)$, as: x}
  metricsQuery: <<.Series>>
externalRules:
- {seriesQuery: queue}
resourceRules:
  cpu: {containerQuery: cc, nodeQuery: cn, containerLabel: container}
  memory: {resources: {template: <<.Resource>>}}
  window: 1m30s
"#,
    );
    let rule = &config.rules[0];
    assert_eq!(rule.series_query, r#"{__name__=~"^http_.*"}"#);
    assert_eq!(rule.series_filters[0].is, "a");
    assert_eq!(rule.series_filters[1].is_not, "b");
    assert_eq!(rule.resources.template, "kube_<<.Resource>>");
    let overrides: Vec<&str> = rule.resources.overrides.iter().map(|(label, _)| label).collect();
    assert_eq!(overrides, ["ns", "dep"]);
    assert_eq!(target(rule, "dep").group, "apps");
    assert_eq!(rule.resources.namespaced, Some(false));
    assert_eq!((&*rule.name.matches, &*rule.name.as_template), ("^(.*)$", "x"));
    assert_eq!(rule.metrics_query, "<<.Series>>");
    assert_eq!(config.external_rules[0].series_query, "queue");
    let resource_rules = config.resource_rules.unwrap();
    assert_eq!(resource_rules.cpu.container_label, "container");
    assert_eq!(resource_rules.memory.resources.template, "<<.Resource>>");
    assert_eq!(resource_rules.window.as_secs(), 90);
    let position = |path| config.positions.get(path).unwrap().to_string();
    assert_eq!(position("rules[0].name.matches"), "line 11, column 19");
    assert_eq!(position("rules[0].resources.overrides.dep.resource"), "line 9, column 36");
    assert_eq!(position("rules[0].absent"), "line 3, column 3");
}

#[rstest]
#[case::empty("")]
#[case::comment("# nothing\n")]
#[case::null("null")]
#[case::empty_mapping("{}")]
#[case::null_fields("rules:\nexternalRules: ~\nresourceRules: null\n")]
#[case::later_documents("rules: []\n---\nfoo: [\n")]
fn empty_file_has_no_rules(#[case] text: &str) {
    let config = parsed(text);
    assert_eq!((config.rules.len(), config.external_rules.len()), (0, 0));
    assert_eq!(config.resource_rules, None);
}

#[test]
fn scalars_have_their_yaml_1_1_meaning() {
    let config = parsed(
        "rules:\n- seriesQuery: 5\n  metricsQuery: null\n  seriesFilters: [{is: yes, isNot: ~}, \
         null]\n- resources: {namespaced: On, overrides: {a: null}}\n-\n",
    );
    let [first, second, third] = &config.rules[..] else { panic!("{config:?}") };
    assert_eq!((&*first.series_query, &*first.metrics_query), ("5", ""));
    assert_eq!(first.series_filters[0], RegexFilter { is: "yes".into(), is_not: String::new() });
    assert_eq!(first.series_filters[1], RegexFilter::default());
    assert_eq!(second.resources.namespaced, Some(true));
    assert_eq!(target(second, "a").resource, "");
    assert_eq!(*third, DiscoveryRule::default());
}

#[test]
fn anchors_and_merge_keys_are_followed() {
    let config = parsed(
        "rules:\n- &a\n  seriesQuery: a\n  resources: {overrides: &o {pod: {resource: pod}}}\n\
         - <<: *a\n  name: {as: b}\n- resources: {overrides: *o}\n- <<: [*a, {seriesQuery: c}]\n",
    );
    assert_eq!(config.rules[1].series_query, "a");
    assert_eq!(config.rules[1].name.as_template, "b");
    assert_eq!(target(&config.rules[2], "pod").resource, "pod");
    assert_eq!(config.rules[3].series_query, "a");
}

#[rstest]
#[case::list("[]", "line 1, column 1: must be a mapping, not a list")]
#[case::text("foo", "line 1, column 1: must be a mapping, not `foo`")]
#[case::unknown(
    "foo: 1",
    "line 1, column 1: unknown field `foo`: expected one of rules, externalRules, resourceRules, \
     servers"
)]
#[case::misspelled(
    "rules:\n- metricQuery: a",
    "line 2, column 3: rules[0]: unknown field `metricQuery`: did you mean `metricsQuery`?"
)]
#[case::other_case(
    "rules:\n- seriesquery: a",
    "line 2, column 3: rules[0]: unknown field `seriesquery`: did you mean `seriesQuery`?"
)]
#[case::repeated("rules: []\nrules: []", "line 2, column 1: `rules` is already set")]
#[case::repeated_label(
    "rules: [{resources: {overrides: {a: {}, a: {}}}}]",
    "line 1, column 41: rules[0].resources.overrides: `a` is already set"
)]
#[case::no_list("rules: {a: b}", "line 1, column 8: rules: must be a list, not a mapping")]
#[case::sections_of_a_chart(
    "rules: {default: false, external: []}",
    "line 1, column 8: rules: must be a list, not a mapping: `custom`, `external` and `resource` \
     below `rules` are values of a Helm chart. Write them as the lists `rules` and \
     `externalRules`, and as `resourceRules`"
)]
#[case::no_rule("rules: [5]", "line 1, column 9: rules[0]: must be a mapping, not `5`")]
#[case::no_text(
    "rules: [{seriesQuery: [1]}]",
    "line 1, column 23: rules[0].seriesQuery: must be a string, not a list"
)]
#[case::no_bool(
    "rules: [{resources: {namespaced: x}}]",
    "line 1, column 34: rules[0].resources.namespaced: must be true or false, not `x`"
)]
#[case::quoted_bool(
    "rules: [{resources: {namespaced: 'true'}}]",
    "line 1, column 34: rules[0].resources.namespaced: must be true or false, not `true`"
)]
#[case::no_duration(
    "resourceRules: {window: 3}",
    "line 1, column 25: resourceRules.window: not a valid duration string: \"3\""
)]
fn invalid_field_is_reported_with_its_position(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(field_errors(text), [expected]);
}

#[test]
fn all_invalid_fields_are_reported_at_once() {
    assert_eq!(field_errors("foo: 1\nrules: x\nresourceRules: {gpu: {}}\n").len(), 3);
}

#[rstest]
#[case::tab("rules:\n\t- a", 2)]
#[case::tab_below_a_text("rules:\n- seriesQuery: up\n\n\tmetricsQuery: up", 4)]
#[case::second_colon("a: b: c", 1)]
#[case::open("rules: [", 1)]
#[case::anchor_in_itself("rules: &a [*a]", 1)]
#[case::deep(&"[".repeat(100), 1)]
fn invalid_yaml_is_reported_with_its_line(#[case] text: &str, #[case] line: usize) {
    match Config::parse(text) {
        Err(ConfigError::Syntax(error)) => assert_eq!(error.position.line, line),
        other => panic!("{other:?}"),
    }
}

#[test]
fn config_map_around_a_rules_file_is_named() {
    let error = Config::parse("apiVersion: v1\nkind: ConfigMap\ndata: {a: 'rules: []'}\n");
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("this is a ConfigMap, not a rules file: write "), "{text}");
}

#[test]
fn expansion_of_aliases_is_limited() {
    let mut text = String::from("a0: &a0 {seriesQuery: x}\n");
    for level in 1..20 {
        let merged = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(
            &["a", &level.to_string(), ": &a", &level.to_string(), " {<<: [", &merged, "]}\n"]
                .concat(),
        );
    }
    text += "rules: [*a19]\n";
    let errors = field_errors(&text);
    assert!(errors.iter().any(|error| error.ends_with("too many YAML nodes")), "{errors:?}");
}

#[test]
fn long_files_are_refused() {
    assert_eq!(Config::parse(&" ".repeat(MAX_FILE_LEN + 1)), Err(ConfigError::TooLong));
}

#[test]
fn servers_are_read_with_all_fields() {
    let config = Config::parse(
        "servers:\n\
         - {name: eu, url: 'http://eu', headers: [X-Scope-OrgID=a], authInCluster: yes, timeout: \
         5s}\nrules:\n\
         - {seriesQuery: up, server: eu}\n",
    );
    let config = config.unwrap();
    let server = &config.servers[0];
    assert_eq!(
        (&*server.name, &*server.url, server.auth_in_cluster),
        ("eu", "http://eu", Some(true))
    );
    assert_eq!(
        (&server.headers[..], server.timeout.as_secs()),
        (&["X-Scope-OrgID=a".into()][..], 5)
    );
    assert_eq!(config.rules[0].server, "eu");
    assert_eq!(config.positions.get("rules[0].server").unwrap().line, 4);
}
