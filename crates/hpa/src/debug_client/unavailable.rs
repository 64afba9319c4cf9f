//! Reasons why the debug API can't be read.

use std::time::Duration;

use hpa_calc::report::error_texts::NO_RESPONSE_WITHIN;
use hpa_controller::k8s::FieldManager;
use hpa_metrics::{TlsSettingNames, connection_cause, describe, is_connection_failure};
use jiff::Timestamp;

use super::lease_key::LeaseKey;
use crate::kubectl::is_forbidden;

/// The error of the HTTP client if a TLS server answers a plain request.
const TLS_ALERT: &str = "invalid HTTP version";

/// The reason why a document of the debug API can't be read, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error(
        "there is no lease {0}: no controller runs with it. --controller-namespace and \
         --controller-lease name another lease, --controller-url a debug API"
    )]
    NoLease(LeaseKey),
    #[error("no instance holds the lease {lease}")]
    NotHeld {
        lease: LeaseKey,
        /// The time of the release, by the API server's clock.
        released: Option<Timestamp>,
    },
    #[error(
        "there is no pod {pod} for the holder of the lease: the controller runs outside of the \
         cluster or in another namespace, or the pod is gone. If it runs on this machine, start it \
         with --debug-bind-address 127.0.0.1 --debug-port PORT, and use --controller-url \
         http://127.0.0.1:PORT here"
    )]
    NoPod { pod: String },
    #[error(
        "the debug API is off: pod {pod} has no port \"debug\". Turn it on with the chart's value \
         debug.enabled, or with hpa run --debug-port and a container port of that name"
    )]
    Off { pod: String },
    /// A tenant may have created the lease and invented its holder.
    #[error(
        "the debug API of the lease's holder is not used: a tenant may have created the lease \
         {0}, because not all namespaces with autoscalers name it. --controller-namespace \
         {namespace} uses it",
        namespace = .0.namespace
    )]
    Unconfirmed(LeaseKey),
    #[error(
        "there is no ServiceAccount {account} to request a token for. The chart creates it with \
         debug.enabled"
    )]
    NoAccount { account: String },
    /// The API server forbids a request.
    #[error(
        "not permitted to {action}: {message}. The chart grants the right with debug.enabled and \
         debug.readers"
    )]
    Forbidden { action: String, message: String },
    /// The debug API rejects a request.
    #[error("the debug API refuses the request: {0}")]
    Refused(String),
    #[error("the debug API can't be reached: {0}")]
    Unreachable(String),
    #[error("{0} serves something other than the debug API")]
    NotTheApi(String),
    #[error("this version of hpa can't decode the document of the debug API: {0}")]
    Undecodable(String),
    #[error("the status was stored by {0}, which has no debug API")]
    OtherController(String),
    #[error(
        "the status was stored by an hpa-rs without leader election, so no lease names its pod. If \
         it runs with --debug-port, --controller-url reads its debug API"
    )]
    NoElection,
    #[error("{0} has not started to work as the leader yet")]
    NotWorking(String),
    #[error("the files have no document of the debug API (kind AutoscalerDetail) about it")]
    NotInFiles,
    #[error("the leader has no record of this autoscaler (yet)")]
    UnknownAutoscaler,
}

impl Unavailable {
    /// The reason for an autoscaler whose status `manager` stored last. An instance without leader
    /// election has no lease, so a lease without a leader is not the reason.
    pub(crate) fn for_writer(self, manager: Option<&str>) -> Self {
        let has_no_leader =
            matches!(self, Self::NoLease(_) | Self::NotHeld { .. } | Self::NoPod { .. });
        let has_no_lease = |manager: &str| {
            FieldManager::is_hpa_rs(manager) && FieldManager::parse_lease(manager).is_none()
        };
        if has_no_leader && manager.is_some_and(has_no_lease) { Self::NoElection } else { self }
    }

    /// A sentence about the debug API of `--controller-url`, which can't be read for this reason.
    pub(crate) fn sentence_about_url(&self) -> String {
        format!("Whether the controller of --controller-url makes decisions is unknown: {self}.")
    }

    pub(super) fn unreachable(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Unreachable(describe(error))
    }

    /// The error of a request to the debug API that got no response. `source` is the pod or URL.
    pub(super) fn no_response(source: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let error = if is_connection_failure(error) {
            connection_cause(error, TlsSettingNames::default())
        } else {
            describe(error)
        };
        let hint = if error.contains(TLS_ALERT) {
            ". It may serve HTTPS, as on each address that is not a loopback one: start it with \
             --debug-bind-address 127.0.0.1"
        } else {
            ""
        };
        Self::Unreachable(format!("{source}: {error}{hint}"))
    }

    /// The error of a read of the debug API that took longer than `limit`.
    pub(super) fn timed_out(source: &str, limit: Duration) -> Self {
        let text = format!("{source}: {NO_RESPONSE_WITHIN}{limit:?} (--request-timeout)");
        Self::Unreachable(text)
    }

    /// The error of a failed request of [`kubectl`](crate::kubectl). `action` completes "not
    /// permitted to".
    pub(super) fn of_request(action: String, error: &anyhow::Error) -> Self {
        let message = error.to_string();
        if is_forbidden(error) {
            Self::Forbidden { action, message }
        } else {
            Self::Unreachable(message)
        }
    }

    /// The error of a failed request to the API server. `action` completes "not permitted to".
    pub(super) fn of_kube_error(action: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_forbidden() => {
                Self::Forbidden { action: action.to_owned(), message: status.message }
            }
            error => Self::Unreachable(describe(&error)),
        }
    }
}
