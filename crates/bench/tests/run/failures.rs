//! Errors that are reported before or during a measurement.

use crate::harness::bench;

#[test]
fn unusable_kubeconfig_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("cluster.yaml").display().to_string();
    let server = format!("--server=kubeconfig={file}");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &server]);
    assert!(!success && errors.contains(&format!("cannot use the kubeconfig {file}")), "{errors}");
    let text = "{ apiVersion: v1, kind: Config, current-context: mine, \
                clusters: [], contexts: [], users: [] }";
    std::fs::write(&file, text).expect("a file");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &server]);
    assert!(!success && errors.contains(&format!("{file}, context \"mine\"")), "{errors}");
}

#[test]
fn directory_without_kube_apiserver_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = format!("kube-apiserver={}", dir.path().display());
    let (success, _, errors) = bench(&["--controller", "ours=/bin/true", "--server", &server]);
    let etcd = dir.path().join("etcd").display().to_string();
    assert!(!success && errors.contains(&format!("{etcd} does not exist")), "{errors}");
}

#[test]
fn exit_of_the_controller_is_reported_with_its_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "#!/bin/sh\necho no such luck >&2\nexit 3\n").expect("a file");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, permissions).expect("permissions");
    let controller = format!("reference={}", broken.display());
    let (success, _, errors) = bench(&["--controller", &controller, "--autoscalers=1", "--pods=1"]);
    assert!(
        !success && errors.contains("exit status: 3") && errors.contains("no such luck"),
        "{errors}"
    );
}
