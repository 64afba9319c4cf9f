//! One autoscaler: a decision on the current state of the cluster, its events and its past.

mod events;
mod view;

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    Inputs, Pod, Readings, Report, SelectedPods, Selector,
    api::{ConditionReason, ConditionType},
    settings::PodSelection,
};
use hpa_controller::{
    HpaKey,
    debug::{effective_settings, fill_forecasts, fill_readings, settings_of_controller},
    scale_target::ScaleUnavailable,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::DynamicObject, runtime::watcher};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use self::{
    events::{EventLine, field_selector},
    view::{Reads, View},
};
use crate::{
    cluster::{Cluster, usable_selector},
    follow::{Follower, Objects},
    model::{Board, Entry, Identity, Sample},
    past::{Past, shifted, silence_limit},
};

/// Changes within this time are sent together.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// After this time, the page is shown even if the first lists are incomplete.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time between two readings of the metrics, which can't be watched.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

const UNKNOWN_PAST: &str = "Past recommendations and scalings are known to the controller only. \
    Stabilization and policies may prevent a scaling that this page shows; see the conditions.";

/// Watches an autoscaler while a page shows it.
pub(crate) struct Detail {
    id: Identity,
    cluster: Arc<Cluster>,
    board: Arc<Board>,
    /// The events that a field selector selects.
    events: Option<(String, Follower<EventLine>)>,
    /// The pods of a selector. `None` if the target has none.
    pods: Option<(String, Follower<Pod>)>,
    /// The time of the last decision of the controller.
    decided_at: Option<Timestamp>,
    /// The last view that was read completely. It is shown during an outage.
    last: Option<View>,
}

impl Detail {
    pub(crate) fn new(id: Identity, cluster: Arc<Cluster>, board: Arc<Board>) -> Self {
        Self { id, cluster, board, events: None, pods: None, decided_at: None, last: None }
    }

    /// Sends the autoscaler as JSON whenever something has changed, until the receiver is gone.
    pub(crate) async fn run(mut self, sender: mpsc::Sender<String>) {
        let mut changes = self.board.subscribe();
        let mut period = interval(self.cluster.sync_period.max(MIN_INTERVAL));
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            changes.borrow_and_update();
            let version = self.board.version_of(&self.id);
            let was_down = self.board.is_down();
            let view = self.current_view().await;
            let is_down = view.reads == Reads::BeforeOutage;
            if was_down != is_down {
                // Their watches would resume after a backoff only.
                (self.events, self.pods) = (None, None);
            }
            if sender.send(view.to_json()).await.is_err() {
                return;
            }
            period.reset();
            loop {
                tokio::select! {
                    _ = period.tick() => break,
                    () = changed(&mut self.events) => break,
                    () = changed(&mut self.pods) => break,
                    () = sender.closed() => return,
                    outcome = changes.changed() => {
                        if outcome.is_err() {
                            return;
                        }
                        let has_changed = self.board.version_of(&self.id) != version;
                        if has_changed || self.board.is_down() != is_down {
                            break;
                        }
                    }
                }
            }
            sleep(DEBOUNCE).await;
        }
    }

    /// What can be read. During an outage, that is what was read before it.
    async fn current_view(&mut self) -> View {
        if !self.board.is_down() {
            let view = self.view().await;
            if view.reads == Reads::Failed {
                // The API server may be the cause.
                self.cluster.probe.check().await;
            }
            if !self.board.is_down() {
                self.last = Some(view.clone());
                return view;
            }
        }
        let view = match (&self.last, self.board.get(&self.id)) {
            (Some(last), _) => last.clone(),
            (None, Some(entry)) => {
                View::new(entry, None, std::iter::empty(), self.cluster.clock.now())
            }
            (None, None) => {
                let now = self.cluster.clock.now();
                View::absent(self.id.clone(), now, true, Vec::new()).with_complete_list(false)
            }
        };
        view.in_outage(self.board.problems(), self.board.unread(), self.cluster.clock.now())
    }

    async fn view(&mut self) -> View {
        let now = self.cluster.clock.now();
        let mut problems = self.board.problems();
        let Some(entry) = self.board.get(&self.id) else {
            let is_known = self.board.is_synced();
            let is_complete = self.board.is_complete(&self.id);
            return View::absent(self.id.clone(), now, is_known, problems)
                .with_complete_list(is_complete)
                .with_unread(self.board.unread());
        };
        if let Some(sentence) = shared_target(&entry) {
            problems.push(sentence);
        }
        let (mut past, mut missing) = self.past(&entry).await;
        let decisions = std::mem::take(&mut past.decisions);
        // Keep the last known decision while the controller can't be read.
        self.decided_at = decisions.last().map(|last| last.until).or(self.decided_at);
        let forecasts = past.forecasts.clone();
        let (report, forbidden, not_read) = self.decide(&entry, past).await;
        let has_failed =
            !not_read.is_empty() || report.as_ref().is_some_and(|report| report.error.is_some());
        problems.extend(forbidden);
        missing.extend(not_read);
        if let (Some(report), Some(hpa)) = (&report, &entry.hpa)
            && let Some(sample) = Sample::from_report(report, hpa)
        {
            self.board.record(&self.id, sample);
        }
        let events = self.events(&entry).await;
        let has_failed = has_failed || events.problem().is_some();
        missing.extend(events.problem().map(|text| format!("Events can't be read: {text}.")));
        // Get the entry again: it has the sample of this decision now.
        let entry = self.board.get(&self.id).unwrap_or(entry);
        let now = self.cluster.clock.now();
        View::new(entry, report, events.items.into_values(), now)
            .with_decisions(decisions)
            .with_last_decision(self.decided_at.filter(|at| self.is_late(*at)))
            .with_forecasts(forecasts)
            .with_problems(problems, missing)
            .with_unread(self.board.unread())
            .with_reads(if has_failed { Reads::Failed } else { Reads::Complete })
    }

    /// Reads the past from the controller, whose samples become part of the chart. Also returns
    /// sentences about what could not be read.
    async fn past(&self, entry: &Entry) -> (Past, Vec<String>) {
        let Some(source) = &self.cluster.past else {
            return (Past::default(), vec![UNKNOWN_PAST.to_owned()]);
        };
        let key = HpaKey::from(&self.id);
        let manager = entry.controller.name.as_deref();
        let now = self.cluster.clock.now();
        let mut past = match source.past(&key, manager, entry.series.past_until()).await {
            Ok(past) => past,
            Err(error) => {
                return (
                    Past::default(),
                    vec![format!("{UNKNOWN_PAST} They can't be read: {error}.")],
                );
            }
        };
        // Relative to the time before the read: the last sample must not be in the future.
        let ahead = past
            .now
            .map_or(SignedDuration::ZERO, |controller_now| now.duration_since(controller_now));
        self.board.record_past(&self.id, std::mem::take(&mut past.samples), ahead);
        for decision in &mut past.decisions {
            decision.from = shifted(decision.from, ahead);
            decision.until = shifted(decision.until, ahead);
        }
        let unknown = past.history.is_none().then(|| UNKNOWN_PAST.to_owned());
        (past, unknown.into_iter().collect())
    }

    /// Decides as the controller would, if the user may read what it needs. Also returns a sentence
    /// about a right that prevents that, and sentences about what could not be read.
    async fn decide(
        &mut self,
        entry: &Entry,
        past: Past,
    ) -> (Option<Report>, Option<String>, Vec<String>) {
        let Some(hpa) = &entry.hpa else { return (None, None, Vec::new()) };
        let mut missing = Vec::new();
        let target = match self.cluster.target(hpa).await {
            // The controller has rights of its own, so this is no failure of the autoscaler.
            Err(ScaleUnavailable { error, is_forbidden: true, .. }) => {
                return (None, Some(by_status(&error)), missing);
            }
            target => target.map_err(|unavailable| unavailable.error),
        };
        let scale = target.as_ref().map(|target| target.scale.clone()).map_err(Clone::clone);
        let selector = scale.as_ref().ok().and_then(usable_selector);
        let pods = self.pods(selector.as_ref()).await;
        if let Some(text) = pods.forbidden() {
            return (None, Some(by_status(&text)), missing);
        }
        missing.extend(pods.problem().map(|text| format!("Pods can't be read: {text}.")));
        let pods: Vec<_> = pods.items.into_values().collect();
        let is_reference = entry.controller.is_reference();
        let settings = effective_settings(self.cluster.settings.clone(), past.settings);
        let settings = settings_of_controller(settings, hpa, &self.cluster.policy, is_reference);
        let selected = match &target {
            Ok(target) if settings.pods == PodSelection::Owned => {
                let namespace = &hpa.metadata.namespace;
                let reference = &hpa.spec.scale_target_ref;
                self.cluster.owners.only_owned(namespace, pods, target, reference).await
            }
            _ => SelectedPods::new(pods),
        };
        let autoscalers = self.selecting(entry, &selected.pods).await;
        let inputs = Inputs {
            hpa: (**hpa).clone(),
            scale,
            settings,
            selected: SelectedPods {
                autoscalers,
                own_name: Some(HpaKey::from(&self.id).to_string()),
                ..selected
            },
            readings: Readings::new(),
            history: past.history,
            now: self.cluster.clock.now(),
        };
        let (readings, problems) = self.cluster.metrics.read(&inputs).await;
        missing.extend(problems.into_iter().map(|text| format!("Metrics can't be read: {text}.")));
        // Samples can be newer than the start of the reads, so take the time again.
        let mut inputs = Inputs { readings, now: self.cluster.clock.now(), ..inputs };
        fill_forecasts(&mut inputs, &past.forecasts);
        let filled = fill_readings(&mut inputs, &past.values);
        if !filled.is_empty() {
            missing.push(format!(
                "The controller reads {} itself. The value here is the last one that it read.",
                filled.join(" and ")
            ));
        }
        (Some(inputs.doubted_report(self.doubt(entry))), None, missing)
    }

    /// The reason to doubt that a controller carries out the decision, if any.
    fn doubt(&self, entry: &Entry) -> Option<String> {
        let text = match self.decided_at {
            Some(at) if self.is_late(at) => "the controller made its last decision long ago",
            Some(_) => return None,
            // Only controllers of this project are checked for silence.
            None if entry.controller.is_reference() || !self.board.is_silent() => return None,
            None => "the controller may make no decisions",
        };
        Some(text.to_owned())
    }

    /// Whether the last decision was so long ago that the controller may have stopped deciding.
    fn is_late(&self, at: Timestamp) -> bool {
        self.cluster.clock.now().duration_since(at) > silence_limit(self.cluster.sync_period)
    }

    async fn events(&mut self, entry: &Entry) -> Objects<EventLine> {
        let uid = entry.hpa.as_ref().map_or("", |hpa| &*hpa.metadata.uid);
        let selector = field_selector(&self.id, uid);
        if self.events.as_ref().is_none_or(|(current, _)| *current != selector) {
            let config = watcher::Config::default().fields(&selector);
            let events: Api<Event> =
                Api::namespaced(self.cluster.client.clone(), &self.id.namespace);
            let events = Follower::start(events, config, |event| Ok(EventLine::new(event)));
            self.events = Some((selector, events));
        }
        objects(&mut self.events).await
    }

    async fn pods(&mut self, selector: Option<&Selector>) -> Objects<Pod> {
        let Some(selector) = selector.map(ToString::to_string) else {
            self.pods = None;
            return Objects::default();
        };
        if self.pods.as_ref().is_none_or(|(current, _)| *current != selector) {
            let config = watcher::Config::default().labels(&selector);
            let pods = self.cluster.pods(&self.id.namespace);
            self.pods = Some((selector, Follower::start(pods, config, decode_pod)));
        }
        objects(&mut self.pods).await
    }

    /// The autoscalers that select any of the pods. Those of other targets are looked up only if the
    /// controller reports an ambiguous selector, because each of them costs a request.
    async fn selecting(&self, entry: &Entry, pods: &[Arc<Pod>]) -> Vec<String> {
        let own_name = HpaKey::from(&self.id).to_string();
        let active = entry.hpa.as_ref();
        let active = active.and_then(|hpa| hpa.status.condition(&ConditionType::ScalingActive));
        let is_ambiguous =
            active.is_some_and(|active| active.reason == ConditionReason::AmbiguousSelector);
        let mut names = match (pods.is_empty(), is_ambiguous) {
            (true, _) => return Vec::new(),
            (false, true) => self.cluster.selecting(self.board.others(&self.id), pods).await,
            (false, false) => Vec::new(),
        };
        names.push(own_name);
        names.sort();
        names
    }
}

/// A right is missing. The rest of the page doesn't need it.
fn by_status(error: &dyn std::fmt::Display) -> String {
    format!(
        "You lack a right, so the decision is not computed here, and the page has what the controller \
         reported last: {error}. The list and the conditions don't need it."
    )
}

/// A sentence about the other autoscalers of the target.
fn shared_target(entry: &Entry) -> Option<String> {
    let others = &entry.row.of_same_target;
    let verb = if others.len() == 1 { "scales" } else { "scale" };
    let target = &entry.row.target;
    (!others.is_empty()).then(|| format!("{} {verb} {target} too.", others.join(" and ")))
}

fn decode_pod(pod: &DynamicObject) -> Result<Pod, String> {
    let pod = serde_json::to_value(pod).and_then(serde_json::from_value);
    pod.map_err(|error| error.to_string())
}

/// The objects that are watched, after their first list.
async fn objects<T: Clone + Send + Sync + 'static>(
    watched: &mut Option<(String, Follower<T>)>,
) -> Objects<T> {
    let Some((_, follower)) = watched else { return Objects::default() };
    let _ = tokio::time::timeout(FIRST_LIST_TIMEOUT, follower.settled()).await;
    follower.objects()
}

/// Waits until one of the objects that are watched has changed.
async fn changed<T: Send + Sync + 'static>(watched: &mut Option<(String, Follower<T>)>) {
    match watched {
        Some((_, follower)) => follower.changed().await,
        None => std::future::pending().await,
    }
}
