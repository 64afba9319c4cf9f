//! Checks the files of the charts, without helm.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use hpa_calc::settings::SETTINGS;
use hpa_tests::repository_path;
use serde_json::{Map, Value, json};

use crate::helm::{ADAPTER, CONTROLLER, Chart};

/// A YAML or JSON file of the chart of the controller.
pub(crate) fn read_controller_file(path: &str) -> Result<Value> {
    read_from_chart(&CONTROLLER, path)
}

/// A YAML or JSON file of a chart.
pub(crate) fn read_from_chart(chart: &Chart, path: &str) -> Result<Value> {
    let path = chart.path().join(path);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_saphyr::from_str(&text)?)
}

/// `values.yaml` and its schema name the same values, and the schema refuses others.
pub(crate) fn check_schema(chart: &Chart) -> Result<()> {
    let (values, schema) =
        (read_from_chart(chart, "values.yaml")?, read_from_chart(chart, "values.schema.json")?);
    compare_with_schema("", &values, &schema)
}

fn compare_with_schema(path: &str, value: &Value, schema: &Value) -> Result<()> {
    // Embedded Kubernetes objects have no properties in the schema.
    let (Value::Object(fields), Some(properties)) = (value, schema["properties"].as_object())
    else {
        return Ok(());
    };
    ensure!(schema["additionalProperties"] == Value::Bool(false), "{path} allows other fields");
    let (named, known) = (keys(fields), keys(properties));
    // `global` is reserved by helm, and `claims` is an optional field of a container.
    let optional = BTreeSet::from(["global", "claims"]);
    let unknown: Vec<_> = named.difference(&known).collect();
    let absent: Vec<_> = known.difference(&named).filter(|key| !optional.contains(*key)).collect();
    ensure!(unknown.is_empty(), "not in the schema: {path} {unknown:?}");
    ensure!(absent.is_empty(), "not in values.yaml: {path} {absent:?}");
    fields.iter().try_for_each(|(key, field)| {
        compare_with_schema(&format!("{path}.{key}"), field, &properties[key])
    })
}

fn keys(object: &Map<String, Value>) -> BTreeSet<&str> {
    object.keys().map(String::as_str).collect()
}

/// The pattern for log levels in each schema has exactly the levels and modules of `--log-level`.
pub(crate) fn check_log_levels() -> Result<()> {
    let code = std::fs::read_to_string(repository_path("crates/hpa/src/args/values.rs"))?;
    let words = |name: &str| -> Result<String> {
        let (_, rest) = code.split_once(&format!("const {name}: ")).context("no constant")?;
        let (_, list) = rest.split_once("= [").context("no list")?;
        let (list, _) = list.split_once(']').context("no end of the list")?;
        Ok(list.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("|"))
    };
    let (levels, targets) = (words("LOG_LEVELS")?, words("LOG_TARGETS")?);
    let upper = levels.to_uppercase();
    let directive = format!("(({targets})(::[a-z0-9_]+)*=)?({levels}|{upper})");
    let expected = format!("^{directive}(,{directive})*$");
    for (chart, pointer) in
        [(&CONTROLLER, "/properties/log/properties/level"), (&ADAPTER, "/properties/logLevel")]
    {
        let schema = read_from_chart(chart, "values.schema.json")?;
        let pattern = &schema.pointer(pointer).context("no log level")?["pattern"];
        ensure!(*pattern == *expected, "the pattern is {pattern}, expected {expected}");
    }
    Ok(())
}

/// The schema allows exactly the names that `--allow-settings` accepts.
pub(crate) fn check_setting_names() -> Result<()> {
    let schema = read_controller_file("values.schema.json")?;
    let pointer = "/properties/autoscaling/properties/allowSettings/items/enum";
    let allowed = schema.pointer(pointer).context("any name is allowed")?;
    let names = SETTINGS.iter().map(|setting| setting.name);
    let expected: Vec<&str> = std::iter::once("none").chain(names).collect();
    ensure!(*allowed == json!(expected), "the schema allows {allowed}, expected {expected:?}");
    Ok(())
}

/// The role files can be applied without helm, and bindings refer to their names. The rules of
/// `role.yaml` name the lease and the `ConfigMaps` that `hpa run` uses by default.
pub(crate) fn check_roles() -> Result<()> {
    for (file, kind) in [("files/clusterrole.yaml", "ClusterRole"), ("files/role.yaml", "Role")] {
        let role = read_controller_file(file)?;
        ensure!(role["kind"] == kind && role["metadata"]["name"] == "hpa-controller", "{file}");
        ensure!(
            role["rules"].as_array().is_some_and(|rules| !rules.is_empty()),
            "{file} has no rules"
        );
    }
    let code = std::fs::read_to_string(repository_path("crates/hpa/src/args/lease.rs"))?;
    let (before, _) = code.split_once("leader_elect_resource_name: String").context("no flag")?;
    let (_, default) = before.rsplit_once("default_value = \"").context("no default")?;
    let (lease, _) = default.split_once('"').context("no end of the default")?;
    let role = read_controller_file("files/role.yaml")?;
    let rules = role["rules"].as_array().context("no rules")?;
    let names = |resource: &str| -> Vec<&str> {
        let rules = rules.iter().filter(|rule| rule["resources"] == json!([resource]));
        let names = rules.filter_map(|rule| rule["resourceNames"].as_array()).flatten();
        names.filter_map(Value::as_str).collect()
    };
    let (leases, config_maps) = (names("leases"), names("configmaps"));
    ensure!(leases == [lease], "the role names {leases:?}, expected {lease}");
    let prefix = format!("{lease}-history-");
    ensure!(
        !config_maps.is_empty() && config_maps.iter().all(|name| name.starts_with(&prefix)),
        "the role names {config_maps:?}, expected {prefix}..."
    );
    Ok(())
}
