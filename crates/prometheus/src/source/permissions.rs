//! The credentials that the servers of a rules file may use.

use std::path::{Component, Path, PathBuf};

use crate::rules::config::Server;

use super::server_error::ServerProblem;

/// The credentials that the servers of a rules file may use. Without limits, anyone who can edit
/// the file could send any file of the pod to their own server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPermissions {
    /// The directory of the files that servers may use. `None` permits no file.
    pub credentials: Option<PathBuf>,
    /// Whether servers may use the service account of the pod.
    pub service_account: bool,
}

impl ServerPermissions {
    /// Checks the path of a server's file. A relative path is in the directory; an empty one is
    /// none.
    pub(super) fn file(
        &self,
        server: &Server,
        path: &str,
    ) -> Result<Option<PathBuf>, ServerProblem> {
        if path.is_empty() {
            return Ok(None);
        }
        let leaves = Path::new(path).components().any(|part| part == Component::ParentDir);
        let permitted = self.credentials.as_ref().filter(|directory| {
            let path = directory.join(path);
            !leaves && path.starts_with(directory) && path != **directory
        });
        let Some(directory) = permitted else {
            let (name, path) = (server.name.clone(), path.into());
            let directory = self.credentials.as_deref().map(Into::into);
            return Err(ServerProblem::File { name, path, directory });
        };
        Ok(Some(directory.join(path)))
    }

    /// Checks whether a server uses the service account.
    pub(super) fn service_account(&self, server: &Server) -> Result<bool, ServerProblem> {
        match server.auth_in_cluster {
            Some(true) if !self.service_account => {
                Err(ServerProblem::ServiceAccount { name: server.name.clone() })
            }
            wanted => Ok(wanted == Some(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn permitted(path: &str) -> Option<String> {
        let directory = Some("/etc/hpa/credentials".into());
        let permissions = ServerPermissions { credentials: directory, service_account: false };
        let file = permissions.file(&Server::default(), path).ok()?;
        Some(file.map(|path| path.display().to_string()).unwrap_or_default())
    }

    #[rstest]
    #[case::none("", Some(""))]
    #[case::absolute("/etc/hpa/credentials/token", Some("/etc/hpa/credentials/token"))]
    #[case::nested("/etc/hpa/credentials/eu/token", Some("/etc/hpa/credentials/eu/token"))]
    #[case::relative("eu/token", Some("/etc/hpa/credentials/eu/token"))]
    #[case::service_account("/var/run/secrets/kubernetes.io/serviceaccount/token", None)]
    #[case::other_directory("/etc/hpa/tls/tls.key", None)]
    #[case::same_beginning("/etc/hpa/credentials2/token", None)]
    #[case::parent("/etc/hpa/credentials/../tls/tls.key", None)]
    #[case::relative_parent("../tls/tls.key", None)]
    #[case::parent_that_returns("eu/../token", None)]
    #[case::the_directory("/etc/hpa/credentials", None)]
    #[case::dot(".", None)]
    #[case::process("/proc/self/environ", None)]
    fn only_files_in_the_directory_are_permitted(
        #[case] path: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(permitted(path).as_deref(), expected);
    }

    #[test]
    fn no_file_is_permitted_without_a_directory() {
        let permissions = ServerPermissions::default();
        assert!(permissions.file(&Server::default(), "token").is_err());
        assert!(permissions.file(&Server::default(), "/etc/hpa/credentials/token").is_err());
    }
}
