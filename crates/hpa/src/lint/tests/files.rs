//! Positions in files, and files without an autoscaler.

use super::*;

#[test]
fn findings_have_the_line_of_the_field() {
    assert!(lint_yaml(YAML).is_empty(), "{:?}", lint_yaml(YAML));
    let text = YAML.replace("name: web\n  min", "name: web\n    nam: x\n  min");
    assert_eq!(lint_yaml(&text), ["10 unknown-field spec.scaleTargetRef.nam"]);
    assert_eq!(lint_yaml(&YAML.replace("s: 5", "s: 2")), ["10 fixed-size spec.minReplicas"]);
    let list =
        format!("kind: List\nitems:\n- {}", YAML.replace('\n', "\n  ")).replace("s: 5", "s: 2");
    assert_eq!(lint_yaml(&list), ["12 fixed-size spec.minReplicas"]);
    let target =
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n";
    let both = lint_yaml(&format!("{YAML}{target}"));
    assert_eq!(both, ["17 replicas-in-manifest spec.replicas"]);
}

#[test]
fn kustomization_is_recognized_by_its_file_name() {
    let manifests = manifests::parse("app/kustomization.yaml", "resources: [hpa.yaml]\n").unwrap();
    let input = Input { manifests, problems: Vec::new() };
    let problem =
        missing_autoscaler_problem(&["app/kustomization.yaml".into()], &input, "hpa convert");
    let problem = problem.expect("a problem");
    let expected = "no HorizontalPodAutoscaler, found 1 object without a kind. Build it \
                    first: kustomize build DIRECTORY | hpa convert -";
    assert_eq!(problem.message, expected);
}

#[rstest]
#[case("kind: Service\n---\nkind: Service\n---\nkind: Foo\n", "found 1 Foo, 2 Service")]
#[case("a: 1\n", "found 1 object without a kind")]
#[case("# nothing\n", "found no object")]
#[case("kind: Kustomization\n", "found 1 Kustomization. Build it first: kustomize build")]
fn files_without_an_autoscaler_are_a_problem(#[case] text: &str, #[case] expected: &str) {
    let manifests = manifests::parse("f.yaml", text).unwrap();
    let input = Input { manifests, problems: Vec::new() };
    let problem =
        missing_autoscaler_problem(&["f.yaml".into()], &input, "hpa lint").expect("a problem");
    let start = format!("f.yaml: no HorizontalPodAutoscaler, {expected}");
    assert!(problem.to_string().starts_with(&start), "{problem}");
    assert_eq!(exit_code(&[], &[problem], false), ExitCode::from(2));
}
