//! The identity of an instance in the lease.

use uuid::Uuid;

/// A unique identity, in kube-controller-manager's format: the host name, `_`, and a random UUID. A
/// restarted instance gets another one. `pod_name` replaces the host name, which Kubernetes
/// truncates to 63 characters.
pub fn identity(pod_name: Option<&str>) -> String {
    let host = pod_name.map_or_else(host_name, ToOwned::to_owned);
    format!("{host}_{}", Uuid::new_v4())
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_unique_and_ends_with_a_uuid() {
        let (one, other) = (identity(None), identity(Some("pod-1")));
        assert_ne!(one, identity(None));
        assert!(other.starts_with("pod-1_"), "{other}");
        assert_eq!(one.rsplit('_').next().expect("a UUID").len(), 36);
    }
}
