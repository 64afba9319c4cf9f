//! The credentials that a rules file may use.

use std::path::{Component, Path, PathBuf};

use crate::rules::config::Server;

/// The credentials that the servers of a rules file may use. A rules file names servers and their
/// credential files. Without this limit, its author could have any file of the pod sent to a server
/// of their choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPermissions {
    /// The directory of credential files. Without one, servers may not name files.
    pub directory: Option<PathBuf>,
    /// Whether servers may use the token of the pod's service account.
    pub service_account: bool,
}

impl ServerPermissions {
    /// Resolves the path of a credential file, relative to the directory. An empty path stands for
    /// no file.
    pub(super) fn credential_file(
        &self,
        server: &Server,
        path: &str,
    ) -> Result<Option<PathBuf>, String> {
        if path.is_empty() {
            return Ok(None);
        }
        let has_parent = Path::new(path).components().any(|part| part == Component::ParentDir);
        let file = self.directory.as_ref().and_then(|directory| {
            let file = directory.join(path);
            let is_inside = !has_parent && file.starts_with(directory) && file != *directory;
            is_inside.then_some(file)
        });
        if file.is_none() {
            let permitted = match self.directory.as_deref().map(Path::display) {
                Some(directory) => {
                    format!("its files must be in {directory} (--metrics-config-credentials)")
                }
                None => "--metrics-config-credentials permits no file".to_owned(),
            };
            let name = &server.name;
            return Err(format!("the server {name:?} may not use the file {path}: {permitted}"));
        }
        Ok(file)
    }

    /// Whether a server authenticates with the pod's service account. Fails if it may not.
    pub(super) fn uses_service_account(&self, server: &Server) -> Result<bool, String> {
        match server.auth_in_cluster {
            Some(true) if !self.service_account => Err(format!(
                "the server {:?} may not use the service account of the pod, unless \
                 --metrics-config-auth-incluster permits it to all servers of the file",
                server.name
            )),
            setting => Ok(setting == Some(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn permitted(path: &str) -> Option<String> {
        let directory = Some("/etc/hpa/credentials".into());
        let permissions = ServerPermissions { directory, service_account: false };
        let file = permissions.credential_file(&Server::default(), path).ok()?;
        Some(file.map(|path| path.display().to_string()).unwrap_or_default())
    }

    #[rstest]
    #[case::none("", Some(""))]
    #[case::absolute("/etc/hpa/credentials/token", Some("/etc/hpa/credentials/token"))]
    #[case::nested("/etc/hpa/credentials/eu/token", Some("/etc/hpa/credentials/eu/token"))]
    #[case::relative("eu/token", Some("/etc/hpa/credentials/eu/token"))]
    #[case::service_account("/var/run/secrets/kubernetes.io/serviceaccount/token", None)]
    #[case::other_directory("/etc/hpa/tls/tls.key", None)]
    #[case::same_prefix("/etc/hpa/credentials2/token", None)]
    #[case::parent("/etc/hpa/credentials/../tls/tls.key", None)]
    #[case::relative_parent("../tls/tls.key", None)]
    #[case::parent_inside_the_directory("eu/../token", None)]
    #[case::the_directory("/etc/hpa/credentials", None)]
    #[case::dot(".", None)]
    #[case::process("/proc/self/environ", None)]
    fn only_files_in_the_directory_are_permitted(
        #[case] path: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(permitted(path).as_deref(), expected);
    }
}
