//! Reads the lease and the flags of kube-controller-manager, which has the built-in HPA controller.

use hpa_controller::k8s::is_clearly_after;
use hpa_dashboard::AutoscalerStatusWriter;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::{HolderResult, describe_age, is_recent_write, search::is_held};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER as NAME, LeaseHolder, LeaseKey},
    kubectl::get_pod,
    manifests::items,
};

/// The names of the HPA controller in `--controllers`.
const HPA_CONTROLLER_NAMES: [&str; 2] =
    ["horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"];

/// The lease and the flags of kube-controller-manager, as far as they can be read.
pub(crate) struct KubeControllerManager {
    pub(crate) holder: HolderResult,
    /// `None` if the lease has no holder, or if the holder has no static pod, as on managed
    /// clusters, or the pod can't be read.
    pub(crate) flags: Option<ManagerFlags>,
    /// The time at which it last stored a status. `None` if that is unknown.
    pub(crate) last_write: Option<Timestamp>,
}

/// The flags of the lease holder's pod.
pub(crate) struct ManagerFlags {
    pub(crate) pod: String,
    pub(crate) enables_hpa: bool,
}

impl KubeControllerManager {
    pub(crate) async fn read(client: &Client) -> Self {
        let holder = LeaseHolder::read(client, &LeaseKey::built_in()).await;
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

    /// Whether the HPA controller is on, by the flags. If they can't be read, a status that the
    /// lease holder stored within the last minute shows that it is on. `None` if unknown. Any
    /// tenant can forge `last_write`, so an older status is not trusted.
    pub(crate) fn is_hpa_controller_on(&self, now: Timestamp) -> Option<bool> {
        let recent = self.last_write.filter(|write| is_recent_write(Some(*write), now));
        self.is_hpa_controller_on_by_write(recent, now)
    }

    /// Like [`Self::is_hpa_controller_on`], but trusts `write` at any age, because the flags of a
    /// lease holder don't change. `write` must be from [`NamespaceWriters::last_built_in_write`],
    /// which no other tenant can forge.
    ///
    /// [`NamespaceWriters::last_built_in_write`]: super::NamespaceWriters::last_built_in_write
    pub(super) fn is_hpa_controller_on_by_write(
        &self,
        write: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<bool> {
        match &self.flags {
            Some(flags) => Some(flags.enables_hpa),
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

    /// A clause about the HPA controller, with the evidence. `write` is the time of a status that
    /// shows that it is on, and `is_confirmed` whether no tenant can have forged that status. If
    /// the status isn't recent, an instance without a lease that has stopped since may have stored
    /// it.
    pub(crate) fn describe_hpa_controller(
        &self,
        write: Option<Timestamp>,
        is_confirmed: bool,
        now: Timestamp,
    ) -> String {
        match (&self.flags, write) {
            (Some(ManagerFlags { pod, enables_hpa }), _) => {
                let state = if *enables_hpa { "on" } else { "off" };
                format!("its HPA controller is {state} (flags of pod {pod})")
            }
            (None, Some(write)) => {
                let is_certain = is_confirmed && is_recent_write(Some(write), now);
                let verb = if is_certain { "is" } else { "may be" };
                let forged = ", which users who may update the autoscaler can forge";
                let doubt = if is_confirmed { "" } else { forged };
                let age = describe_age(write, now);
                format!("its HPA controller {verb} on (a status stored {age} names it{doubt})")
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
        let pod_name = format!("{NAME}-{}", holder.host_name());
        let pod = get_pod(client, namespace, &pod_name).await.ok()?;
        let mut containers = items(pod.pointer("/spec/containers"));
        let container = containers.find(|container| container["name"] == NAME)?;
        let words = ["command", "args"].into_iter().flat_map(|field| items(container.get(field)));
        let words: Vec<_> = words.filter_map(Value::as_str).map(str::to_owned).collect();
        let enables_hpa = controllers_flag_enables_hpa(&words);
        Some(Self { pod: format!("{namespace}/{pod_name}"), enables_hpa })
    }
}

/// Whether `--controllers` turns the HPA controller on, as is the default. Repeated flags add to
/// one list, in which the first entry that names the controller counts.
fn controllers_flag_enables_hpa(words: &[String]) -> bool {
    let values = flag_values(words, "--controllers");
    let entries: Vec<_> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    let is_named = |entry: &&&str| HPA_CONTROLLER_NAMES.contains(&entry.trim_start_matches('-'));
    let is_on_by_default = entries.is_empty() || entries.contains(&"*");
    entries.iter().find(is_named).map_or(is_on_by_default, |entry| !entry.starts_with('-'))
}

/// The values of a flag: `--flag=value` or `--flag value`.
fn flag_values<'a>(words: &'a [String], flag: &str) -> impl Iterator<Item = &'a str> {
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
    #[case::repeated_flags_add_up(
        &["--controllers=*,-horizontalpodautoscaling", "--controllers=*"],
        false
    )]
    #[case::repeated_flags_keep_all(&["--controllers=*", "--controllers=-job-controller"], true)]
    #[case::other_flag(&["--controllers-x=job-controller"], true)]
    fn flags_select_the_hpa_controller_as_in_the_reference(
        #[case] words: &[&str],
        #[case] expected: bool,
    ) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(controllers_flag_enables_hpa(&words), expected);
    }
}
