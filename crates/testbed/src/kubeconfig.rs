use std::net::SocketAddr;

/// A kubeconfig for a server without TLS or authentication.
pub(crate) fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster:
    server: http://{address}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: testbed
    namespace: default
users:
- name: testbed
  user: {{}}
"
    )
}
