use std::path::PathBuf;

use clap::Args;
use hpa_controller::k8s::KubeconfigOverrides;
use jiff::SignedDuration;

use super::values::{dns_label, positive_duration};

/// The flags of kubectl that select a cluster, a user and a namespace.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster (as in kubectl)")]
pub(crate) struct KubectlArguments {
    /// The kubeconfig file [default: $KUBECONFIG, else ~/.kube/config, else the service account of
    /// the pod]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The kubeconfig's cluster [default: the context's]
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The kubeconfig's user [default: the context's]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The namespace [default: the context's, else "default"]
    #[arg(long, short = 'n', value_name = "NAME", value_parser = dns_label)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) impersonation: ImpersonationArguments,
    /// Timeout of a request
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    pub(crate) request_timeout: SignedDuration,
}

/// The flags of kubectl that impersonate another user.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImpersonationArguments {
    /// The user to act as
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// A group to act as; can be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate")]
    impersonate_groups: Vec<String>,
}

impl ImpersonationArguments {
    /// The overrides with which a client impersonates the user.
    pub(crate) fn overrides(&self) -> KubeconfigOverrides {
        KubeconfigOverrides {
            impersonate: self.impersonate.clone(),
            impersonate_groups: self.impersonate_groups.clone(),
            ..KubeconfigOverrides::default()
        }
    }
}
