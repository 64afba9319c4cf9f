//! Reads the lease and the flags of kube-controller-manager, which has the built-in HPA controller.

use hpa_controller::k8s::is_clearly_after;
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use super::{describe_age, is_recent_write, search::is_held};
use crate::debug_client::{KUBE_CONTROLLER_MANAGER as NAME, LeaseHolder, LeaseName, Unavailable};

/// The names of the HPA controller in `--controllers`.
const HPA_CONTROLLER: [&str; 2] =
    ["horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"];

/// The lease and the flags of kube-controller-manager, as far as they can be read.
pub(crate) struct KubeControllerManager {
    pub(crate) holder: Result<LeaseHolder, Unavailable>,
    /// `None` if the lease has no holder, or if the holder has no static pod, as on managed
    /// clusters, or the pod can't be read.
    pub(crate) flags: Option<ManagerFlags>,
    /// The time at which it last stored a status. `None` if that is unknown.
    pub(crate) last_write: Option<Timestamp>,
}

/// The flags of the lease holder's pod.
pub(crate) struct ManagerFlags {
    pub(crate) pod: String,
    pub(crate) has_hpa_controller: bool,
}

impl KubeControllerManager {
    pub(crate) async fn read(client: &Client) -> Self {
        let holder = LeaseHolder::read(client, &LeaseName::built_in()).await;
        let flags = match &holder {
            Ok(holder) => ManagerFlags::read(client, holder).await,
            Err(_) => None,
        };
        Self { holder, flags, last_write: None }
    }

    /// Sets `last_write` from the writers of statuses.
    pub(crate) fn with_statuses(self, statuses: &[AutoscalerStatusWriter]) -> Self {
        let writes = statuses.iter().filter_map(|status| status.written_at(NAME));
        Self { last_write: writes.max(), ..self }
    }

    /// Whether the HPA controller is on, by the flags. If they can't be read, a recent status that
    /// the lease holder stored shows that it is on. `None` if it is unknown. A tenant can forge the
    /// status, so an older one doesn't count.
    pub(crate) fn has_hpa_controller(&self, now: Timestamp) -> Option<bool> {
        let recent = self.last_write.filter(|write| is_recent_write(Some(*write), now));
        self.has_hpa_controller_by(recent, now)
    }

    /// Like [`Self::has_hpa_controller`], with `write` as the time of the status. An old one counts
    /// too, because the flags of the lease holder don't change.
    pub(super) fn has_hpa_controller_by(
        &self,
        write: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<bool> {
        match &self.flags {
            Some(flags) => Some(flags.has_hpa_controller),
            None => self.holder_stored(write, now).then_some(true),
        }
    }

    /// Whether the lease is held, and its holder stored the status at `write`. A status that is not
    /// later than the acquisition of the lease may be that of an earlier holder, which may have
    /// run with other flags. The clocks of the holder and of the API server may differ. If the time
    /// of the acquisition is unknown, the status must be recent.
    fn holder_stored(&self, write: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(write) = write.filter(|_| is_held(&self.holder)) else { return false };
        match self.holder.as_ref().ok().and_then(|holder| holder.acquired) {
            Some(acquired) => is_clearly_after(write, acquired),
            None => is_recent_write(Some(write), now),
        }
    }

    /// A clause about the HPA controller, with the evidence. `is_on` is whether flags or a status
    /// show that it is on, and `is_confirmed` whether no tenant can have forged that status.
    pub(crate) fn describe_hpa_controller(
        &self,
        is_on: bool,
        is_confirmed: bool,
        now: Timestamp,
    ) -> String {
        match (&self.flags, self.last_write.filter(|_| is_on)) {
            (Some(ManagerFlags { pod, has_hpa_controller }), _) => {
                let state = if *has_hpa_controller { "on" } else { "off" };
                format!("its HPA controller is {state} (flags of pod {pod})")
            }
            (None, Some(write)) => {
                let age = describe_age(write, now);
                if is_confirmed {
                    format!("its HPA controller is on (a status stored {age} names it)")
                } else {
                    format!(
                        "its HPA controller may be on (a status stored {age} names it, which users \
                         who may update the autoscaler can forge)"
                    )
                }
            }
            (None, None) => {
                "its flags can't be read here, so its HPA controller may be on".to_owned()
            }
        }
    }
}

impl ManagerFlags {
    /// Reads the flags of the holder's static pod, which is named after its node.
    async fn read(client: &Client, holder: &LeaseHolder) -> Option<Self> {
        let namespace = &holder.lease.namespace;
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pod_name = format!("{NAME}-{}", holder.host_name());
        let pod = pods.get_opt(&pod_name).await.ok()??;
        let mut containers = pod.spec?.containers.into_iter();
        let container = containers.find(|container| container.name == NAME)?;
        let words = container.command.into_iter().chain(container.args).flatten();
        let has_hpa_controller = has_hpa_controller(&words.collect::<Vec<_>>());
        Some(Self { pod: format!("{namespace}/{pod_name}"), has_hpa_controller })
    }
}

/// Whether `--controllers` turns the HPA controller on, as is the default. The last such flag
/// counts, and in it the first entry that names the controller.
fn has_hpa_controller(words: &[String]) -> bool {
    let Some(selected) = flag_values(words, "--controllers").next_back() else { return true };
    let entries = || selected.split(',').map(str::trim);
    let entry = entries().find(|entry| HPA_CONTROLLER.contains(&entry.trim_start_matches('-')));
    entry.map_or_else(|| entries().any(|entry| entry == "*"), |entry| !entry.starts_with('-'))
}

/// The values of a flag: `--flag=value` or `--flag value`.
fn flag_values<'a>(words: &'a [String], flag: &str) -> impl DoubleEndedIterator<Item = &'a str> {
    words.iter().enumerate().filter_map(move |(index, word)| {
        let value = word.strip_prefix(flag)?;
        match value.strip_prefix('=') {
            Some(value) => Some(value),
            None if value.is_empty() => words.get(index + 1).map(String::as_str),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::default(&["kube-controller-manager"], true)]
    #[case::all(&["--controllers=*"], true)]
    #[case::off(&["--controllers=*,-horizontal-pod-autoscaler-controller"], false)]
    #[case::old_name(&["--controllers=*,-horizontalpodautoscaling"], false)]
    #[case::two_words(&["--controllers", "*,-horizontal-pod-autoscaler-controller"], false)]
    #[case::only_others(&["--controllers=job-controller"], false)]
    #[case::named(&["--controllers=horizontal-pod-autoscaler-controller"], true)]
    #[case::last_counts(&["--controllers=-horizontalpodautoscaling,*", "--controllers=*"], true)]
    #[case::other_flag(&["--controllers-x=job-controller"], true)]
    fn flags_select_the_hpa_controller_as_in_the_reference(
        #[case] words: &[&str],
        #[case] expected: bool,
    ) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(has_hpa_controller(&words), expected);
    }
}
