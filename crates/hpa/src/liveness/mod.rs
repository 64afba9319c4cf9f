//! Detects that no controller acts on autoscalers, from the leases and from the field managers of
//! statuses.

mod built_in;
mod search;

use hpa_controller::{AutoscalerApi, debug::ActingController, k8s::FieldManager};
use jiff::{SignedDuration, Timestamp};

pub(crate) use self::{
    built_in::{KubeControllerManager, ManagerFlags},
    search::ControllerLease,
};
use crate::debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseName, Unavailable};

/// A controller that stored a status within this time counts as running.
const RECENT_WRITE: SignedDuration = SignedDuration::from_mins(1);

/// Whether a status that was stored at `newest` shows that its writer runs.
pub(crate) fn is_recent_write(newest: Option<Timestamp>, now: Timestamp) -> bool {
    newest.is_some_and(|newest| now.duration_since(newest) <= RECENT_WRITE)
}

/// The leases of hpa-rs and of kube-controller-manager, as read at `now`.
pub(crate) struct Leases<'a> {
    /// The name of the lease of hpa-rs.
    pub(crate) name: &'a LeaseName,
    pub(crate) holder: &'a Result<LeaseHolder, Unavailable>,
    /// See [`ControllerLease::searched_namespaces`].
    pub(crate) searched_namespaces: &'a [String],
    pub(crate) built_in: &'a KubeControllerManager,
    pub(crate) now: Timestamp,
}

/// The finding that no controller acts on an autoscaler, as far as the leases show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Idle {
    pub(crate) is_certain: bool,
    /// The cause, without the search.
    pub(crate) cause: String,
    /// The result of the search for the lease of hpa-rs, if its namespace is not known.
    pub(crate) search: Option<String>,
}

impl Idle {
    /// A sentence without a full stop. `autoscalers` is the text that names the autoscalers.
    pub(crate) fn sentence(&self, autoscalers: &str) -> String {
        let hint = if self.search.is_some() {
            "; if hpa-rs runs elsewhere, add --controller-namespace"
        } else {
            ""
        };
        format!("{}: {}{hint}", self.clause(autoscalers), self.reason())
    }

    /// The cause, and the result of the search.
    pub(crate) fn reason(&self) -> String {
        match &self.search {
            Some(search) => format!("{}, and {search}", self.cause),
            None => self.cause.clone(),
        }
    }

    /// Like [`Self::sentence`], without the reason.
    pub(crate) fn clause(&self, autoscalers: &str) -> String {
        let start = if self.is_certain { "No controller acts" } else { "Maybe no controller acts" };
        format!("{start} on {autoscalers}")
    }
}

impl Leases<'_> {
    /// Checks whether no controller acts on an autoscaler. `manager` is the field manager that
    /// stored the status last. `None` if a controller may act: the lease of hpa-rs or of `manager`
    /// is held or can't be read, kube-controller-manager handles the autoscaler, or neither lease
    /// is that of `manager`. A missing lease doesn't show that its controller has stopped, and a
    /// lease that was only guessed doesn't show that there is no other.
    pub(crate) fn idle(&self, api: AutoscalerApi, manager: &str) -> Option<Idle> {
        let lost = lost_lease(self.holder, self.now);
        // Without a lease, the controller may never have run.
        if lost.is_none() && !matches!(self.holder, Err(Unavailable::NoLease(_))) {
            return None;
        }
        if manager == KUBE_CONTROLLER_MANAGER {
            let (cause, search) = (self.built_in_idle()?, self.describe_search());
            return Some(Idle { is_certain: search.is_none(), cause, search });
        }
        let cause = lost.filter(|_| self.has_lease_of(manager))?;
        // kube-controller-manager handles no other API.
        let is_certain = api != AutoscalerApi::Core
            || self.built_in_idle().is_some()
            || matches!(self.built_in.holder, Err(Unavailable::NoLease(_)));
        if is_certain {
            return Some(Idle { is_certain, cause, search: None });
        }
        let is_held = self.built_in.holder.is_ok();
        let is_on = self.built_in.has_hpa_controller() == Some(true);
        if is_held && (is_on || self.is_recent_write(self.built_in.last_write)) {
            return None;
        }
        let unread = if is_held { "flags" } else { "lease" };
        let cause = format!(
            "{cause}, and whether {KUBE_CONTROLLER_MANAGER} handles autoscalers is unknown: \
             its {unread} can't be read"
        );
        Some(Idle { is_certain, cause, search: None })
    }

    /// The controller that acts on an autoscaler whose status `manager` stored last.
    /// `hpa_rs_answers` is whether a debug API shows that hpa-rs works, which may hold no lease.
    pub(crate) fn acting_controller(
        &self,
        manager: Option<&str>,
        hpa_rs_answers: bool,
    ) -> ActingController {
        if manager != Some(KUBE_CONTROLLER_MANAGER) {
            return ActingController::HpaRs;
        }
        let hpa_rs_runs = hpa_rs_answers || search::is_held(self.holder, self.now);
        // A lease that can't be read may be held.
        let hpa_rs_may_run = hpa_rs_runs
            || !matches!(
                self.holder,
                Ok(_) | Err(Unavailable::NoLease(_) | Unavailable::NotHeld(_))
            );
        match self.built_in_idle() {
            Some(_) if hpa_rs_runs => ActingController::HpaRs,
            None if !hpa_rs_may_run => ActingController::KubeControllerManager,
            _ => ActingController::Unknown,
        }
    }

    /// The result of the search for the lease of hpa-rs. `None` if its namespace is known.
    fn describe_search(&self) -> Option<String> {
        if self.searched_namespaces.is_empty() {
            return None;
        }
        let lost = lost_lease(self.holder, self.now);
        Some(lost.unwrap_or_else(|| no_lease_found(&self.name.name, self.searched_namespaces)))
    }

    /// Whether a controller has lost or released its lease and has stored no status recently. Its
    /// last status was stored at `newest`.
    pub(crate) fn no_longer_writes(&self, manager: &str, newest: Option<Timestamp>) -> bool {
        !self.is_recent_write(newest) && self.is_running(manager) == Some(false)
    }

    /// Whether a status that was stored at `newest` shows that its writer runs.
    pub(crate) fn is_recent_write(&self, newest: Option<Timestamp>) -> bool {
        is_recent_write(newest, self.now)
    }

    /// Whether a controller runs, by its lease. `None` if unknown.
    pub(crate) fn is_running(&self, manager: &str) -> Option<bool> {
        let holder = match manager {
            KUBE_CONTROLLER_MANAGER => &self.built_in.holder,
            _ if self.has_lease_of(manager) => self.holder,
            _ => return None,
        };
        match holder {
            Ok(holder) => Some(!holder.is_expired(self.now)),
            Err(Unavailable::NotHeld(_)) => Some(false),
            Err(_) => None,
        }
    }

    /// Whether the lease of hpa-rs is the one that the field manager names.
    fn has_lease_of(&self, manager: &str) -> bool {
        let name = (self.name.namespace.as_str(), self.name.name.as_str());
        FieldManager::parse_lease(manager) == Some(name)
    }

    /// The reason why kube-controller-manager handles no autoscaler, if it is known.
    fn built_in_idle(&self) -> Option<String> {
        lost_lease(&self.built_in.holder, self.now).or_else(|| {
            let is_off = self.built_in.has_hpa_controller() == Some(false);
            is_off.then(|| format!("{KUBE_CONTROLLER_MANAGER}'s HPA controller is off"))
        })
    }
}

/// A clause about a lease that is in none of the namespaces.
pub(crate) fn no_lease_found(name: &str, namespaces: &[String]) -> String {
    format!("no lease {name} was found in {}", namespaces.join(" or "))
}

/// A clause about a lease that is not held, or has expired. `None` for other leases.
fn lost_lease(holder: &Result<LeaseHolder, Unavailable>, now: Timestamp) -> Option<String> {
    match holder {
        Ok(holder) if holder.is_expired(now) => Some(holder.describe_expiry(now)),
        Err(error @ Unavailable::NotHeld(_)) => Some(error.to_string()),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    type Holder = Result<LeaseHolder, Unavailable>;

    const OWN: &str = "hpa-controller:a/hpa";
    const CORE: AutoscalerApi = AutoscalerApi::Core;
    const UNREAD_FLAGS: &str = "no instance holds the lease a/hpa, and whether \
                                kube-controller-manager handles autoscalers is unknown: its flags \
                                can't be read";
    const UNREAD_LEASE: &str = "no instance holds the lease a/hpa, and whether \
                                kube-controller-manager handles autoscalers is unknown: its lease \
                                can't be read";

    fn name() -> LeaseName {
        LeaseName { namespace: "a".to_owned(), name: "hpa".to_owned() }
    }

    fn renewed(second: i64) -> LeaseHolder {
        LeaseHolder {
            lease: name(),
            identity: "x_1".to_owned(),
            renewed: Timestamp::from_second(second).ok(),
            duration: SignedDuration::from_secs(15),
            transitions: 0,
        }
    }

    fn held() -> LeaseHolder {
        renewed(995)
    }

    fn expired() -> LeaseHolder {
        renewed(955)
    }

    fn released() -> Holder {
        Err(Unavailable::NotHeld(name()))
    }

    fn none() -> Holder {
        Err(Unavailable::NoLease(name()))
    }

    fn unread() -> Holder {
        Err(Unavailable::Unreachable("refused".to_owned()))
    }

    fn leases<'a>(
        name: &'a LeaseName,
        holder: &'a Holder,
        built_in: &'a KubeControllerManager,
    ) -> Leases<'a> {
        let now = Timestamp::from_second(1000).expect("a time");
        Leases { name, holder, searched_namespaces: &[], built_in, now }
    }

    #[rstest]
    #[case::crashed(
        OWN,
        Ok(expired()),
        none(),
        None,
        "no controller has renewed the lease a/hpa for 45s"
    )]
    #[case::stopped(OWN, released(), none(), None, "no instance holds the lease a/hpa")]
    #[case::both_stopped(OWN, released(), Ok(expired()), None, "no instance holds the lease a/hpa")]
    #[case::built_in_is_off(
        OWN,
        released(),
        Ok(held()),
        Some(false),
        "no instance holds the lease a/hpa"
    )]
    #[case::built_in_is_unknown(OWN, released(), Ok(held()), None, UNREAD_FLAGS)]
    #[case::built_in_is_unread(OWN, released(), unread(), None, UNREAD_LEASE)]
    #[case::built_in_is_on(OWN, released(), Ok(held()), Some(true), "")]
    #[case::runs(OWN, Ok(held()), Ok(expired()), None, "")]
    #[case::unread(OWN, unread(), Ok(expired()), None, "")]
    #[case::lease_deleted(OWN, none(), none(), None, "")]
    #[case::other_lease("hpa-controller:b/hpa", released(), none(), None, "")]
    #[case::without_election("hpa-controller", released(), none(), None, "")]
    #[case::built_in_crashed(
        KUBE_CONTROLLER_MANAGER,
        none(),
        Ok(expired()),
        None,
        "no controller has renewed the lease a/hpa for 45s"
    )]
    #[case::built_in_replaced(KUBE_CONTROLLER_MANAGER, Ok(held()), Ok(expired()), None, "")]
    #[case::built_in_runs(KUBE_CONTROLLER_MANAGER, released(), Ok(held()), None, "")]
    #[case::built_in_switched_off(
        KUBE_CONTROLLER_MANAGER,
        released(),
        Ok(held()),
        Some(false),
        "kube-controller-manager's HPA controller is off"
    )]
    fn no_controller_acts_if_the_leases_are_lost(
        #[case] manager: &str,
        #[case] holder: Holder,
        #[case] built_in: Holder,
        #[case] has_hpa_controller: Option<bool>,
        #[case] expected: &str,
    ) {
        let flags = has_hpa_controller
            .map(|has_hpa_controller| ManagerFlags { pod: String::new(), has_hpa_controller });
        let built_in = KubeControllerManager { holder: built_in, flags, last_write: None };
        let name = name();
        let idle = leases(&name, &holder, &built_in).idle(CORE, manager);
        let (is_certain, reason) =
            idle.map(|idle| (idle.is_certain, idle.reason())).unwrap_or_default();
        assert_eq!(reason, expected);
        assert_eq!(is_certain, !matches!(expected, "" | UNREAD_FLAGS | UNREAD_LEASE));
    }

    #[rstest]
    #[case::missing(none(), "no lease hpa was found in kube-system or autoscaling")]
    #[case::released(released(), "no instance holds the lease a/hpa")]
    #[case::expired(Ok(expired()), "no controller has renewed the lease a/hpa for 45s")]
    fn guessed_lease_never_shows_for_certain_that_no_controller_acts(
        #[case] holder: Holder,
        #[case] search: &str,
    ) {
        let flags = Some(ManagerFlags { pod: String::new(), has_hpa_controller: false });
        let built_in = KubeControllerManager { holder: Ok(held()), flags, last_write: None };
        let (name, searched) = (name(), ["kube-system", "autoscaling"].map(str::to_owned));
        let leases = Leases { searched_namespaces: &searched, ..leases(&name, &holder, &built_in) };
        let idle = leases.idle(CORE, KUBE_CONTROLLER_MANAGER).expect("a finding");
        assert!(!idle.is_certain, "{idle:?}");
        let expected = format!(
            "Maybe no controller acts on it: kube-controller-manager's HPA controller is off, and \
             {search}; if hpa-rs runs elsewhere, add --controller-namespace"
        );
        assert_eq!(idle.sentence("it"), expected);
    }

    #[rstest]
    #[case::other_manager(OWN, none(), None, false, ActingController::HpaRs)]
    #[case::replaced(
        KUBE_CONTROLLER_MANAGER,
        Ok(held()),
        Some(false),
        false,
        ActingController::HpaRs
    )]
    #[case::answers(KUBE_CONTROLLER_MANAGER, none(), Some(false), true, ActingController::HpaRs)]
    #[case::beside(
        KUBE_CONTROLLER_MANAGER,
        Ok(held()),
        Some(true),
        false,
        ActingController::Unknown
    )]
    #[case::flags_unread(KUBE_CONTROLLER_MANAGER, none(), None, true, ActingController::Unknown)]
    #[case::lease_unread(KUBE_CONTROLLER_MANAGER, unread(), None, false, ActingController::Unknown)]
    #[case::switched_off(
        KUBE_CONTROLLER_MANAGER,
        none(),
        Some(false),
        false,
        ActingController::Unknown
    )]
    #[case::expired(
        KUBE_CONTROLLER_MANAGER,
        Ok(expired()),
        None,
        false,
        ActingController::KubeControllerManager
    )]
    #[case::alone(
        KUBE_CONTROLLER_MANAGER,
        none(),
        Some(true),
        false,
        ActingController::KubeControllerManager
    )]
    fn acting_controller_is_known_if_only_one_may_run(
        #[case] manager: &str,
        #[case] holder: Holder,
        #[case] has_hpa_controller: Option<bool>,
        #[case] hpa_rs_answers: bool,
        #[case] expected: ActingController,
    ) {
        let flags = has_hpa_controller
            .map(|has_hpa_controller| ManagerFlags { pod: String::new(), has_hpa_controller });
        let built_in = KubeControllerManager { holder: Ok(held()), flags, last_write: None };
        let name = name();
        let leases = leases(&name, &holder, &built_in);
        assert_eq!(leases.acting_controller(Some(manager), hpa_rs_answers), expected);
    }

    #[rstest]
    #[case::recently(960, true)]
    #[case::long_ago(900, false)]
    fn built_in_controller_that_holds_its_lease_and_writes_handles_autoscalers(
        #[case] second: i64,
        #[case] handles: bool,
    ) {
        let last_write = Timestamp::from_second(second).ok();
        let built_in = KubeControllerManager { holder: Ok(held()), flags: None, last_write };
        let name = name();
        let idle = leases(&name, &released(), &built_in).idle(CORE, OWN);
        assert_eq!(idle.is_none(), handles, "{idle:?}");
    }

    #[test]
    fn built_in_controller_handles_no_autoscaler_of_the_custom_api() {
        let flags = Some(ManagerFlags { pod: String::new(), has_hpa_controller: true });
        let built_in = KubeControllerManager { holder: Ok(held()), flags, last_write: None };
        let name = name();
        let idle = leases(&name, &released(), &built_in).idle(AutoscalerApi::Custom, OWN);
        assert!(idle.is_some_and(|idle| idle.is_certain));
    }

    #[rstest]
    #[case::own_stopped(OWN, Some(900), true)]
    #[case::own_wrote_just_now(OWN, Some(960), false)]
    #[case::built_in_runs(KUBE_CONTROLLER_MANAGER, Some(900), false)]
    #[case::unknown("k3s", Some(900), false)]
    fn controller_that_lost_its_lease_no_longer_writes(
        #[case] manager: &str,
        #[case] newest: Option<i64>,
        #[case] expected: bool,
    ) {
        let built_in = KubeControllerManager { holder: Ok(held()), flags: None, last_write: None };
        let name = name();
        let holder = released();
        let newest = newest.and_then(|second| Timestamp::from_second(second).ok());
        assert_eq!(leases(&name, &holder, &built_in).no_longer_writes(manager, newest), expected);
    }
}
