use clap::{Arg, Args};
use hpa_lease::ElectionConfig;
use jiff::SignedDuration;

use super::values::{
    BOOL, HPA_ADAPTER_PREFIX, HPA_PREFIX, dns_label, dns_subdomain, positive_duration, to_std,
};

/// Flags of leader election and its lease.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named like their flags")]
pub(crate) struct LeaseArguments {
    /// Acquire the lease before writing anything. Set to false only if there is a single instance
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = true)]
    pub(crate) leader_elect: bool,
    /// Time without an observed renewal after which a standby acquires the lease
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "15s",
        value_parser = positive_duration)]
    pub(crate) leader_elect_lease_duration: SignedDuration,
    /// Name of the lease, and prefix of the ConfigMaps that store the histories
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", default_value = "hpa-controller",
        value_parser = dns_subdomain)]
    pub(crate) leader_elect_resource_name: String,
    /// Namespace of the lease and the ConfigMaps with histories [default: the namespace of this
    /// pod, else kube-system]
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", value_parser = dns_label)]
    pub(crate) leader_elect_resource_namespace: Option<String>,
}

impl LeaseArguments {
    /// Configures the election. The renew deadline and the retry period have the ratios of
    /// kube-controller-manager's defaults: 15 s, 10 s and 2 s.
    pub(crate) fn election_config(
        &self,
        pod_namespace: Option<String>,
        pod_name: Option<&str>,
    ) -> ElectionConfig {
        let namespace = self.leader_elect_resource_namespace.clone().or(pod_namespace);
        let lease_duration = to_std(self.leader_elect_lease_duration);
        ElectionConfig {
            namespace: namespace.unwrap_or_else(|| "kube-system".to_owned()),
            name: self.leader_elect_resource_name.clone(),
            identity: hpa_lease::identity(pod_name),
            lease_duration,
            renew_deadline: lease_duration * 2 / 3,
            retry_period: lease_duration * 2 / 15,
        }
    }
}

/// Sets variable and help text of an argument of [`LeaseArguments`] for `hpa adapter`, and the
/// default name of the lease. All replicas of the adapter serve metrics; only the leader writes.
/// Other arguments are returned unchanged.
pub(super) fn for_adapter(argument: Arg) -> Arg {
    let help = match argument.get_id().as_str() {
        "leader_elect" => {
            "Acquire a lease before writing events and the status of schedules. All replicas \
             serve metrics. Set to false only if there is a single replica"
        }
        "leader_elect_lease_duration" => {
            "Time without an observed renewal after which another replica acquires the lease"
        }
        "leader_elect_resource_name" => "Name of the lease",
        "leader_elect_resource_namespace" => {
            "Namespace of the lease [default: the namespace of this pod, else kube-system]"
        }
        _ => return argument,
    };
    let is_name = argument.get_id() == "leader_elect_resource_name";
    let argument = argument.env(HPA_ADAPTER_PREFIX).help(help);
    if is_name { argument.default_value("hpa-adapter") } else { argument }
}
