//! The page of one autoscaler: a decision on the current state of the cluster, events and the past.

mod events;
mod view;

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, Pod, Readings, Report, ScaleReadError, SelectedPods, Selector,
    api::{ConditionReason, ConditionType},
    explain::list_first,
};
use hpa_controller::{
    HpaKey,
    debug::{
        StayDecision, clock_lag, effective_settings, fill_forecasts, fill_readings,
        replace_sentence, settings_of_controller,
    },
    scale_target::{ScaleObject, ScaleUnavailable, scheduling_failure},
};
use hpa_metrics::StoredObject;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use self::{
    events::{EventLine, field_selector},
    view::{ReadOutcome, View},
};
use crate::{
    cluster::Cluster,
    informer::{Informer, Objects, decode},
    model::{Board, Entry, Sample},
    past::{ControllerRecords, RecordSource, inactivity_limit, shifted},
};

/// After a change, wait for this time, to send the changes that follow with it.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// The longest time that the page waits for each first list: that of pods, and that of events.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a view waits for the first outcome of a read of the controller's records.
/// If the outcome arrives later, the view is sent again.
const RECORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest period at which the view is read again without a change. Metrics can't be watched.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of autoscalers that a sentence names. Further ones are only counted.
const MAX_NAMES: usize = 5;

const UNKNOWN_PAST: &str = "Only the controller knows past recommendations and scalings. \
    Stabilization and policies may prevent a scaling that this page shows; see the conditions.";

/// The outcome of a read of the controller's records, with the lead of the dashboard's clock over
/// the controller's.
type RecordOutcome = Result<(ControllerRecords, SignedDuration), String>;

/// A pod that matches the selector of the target.
#[derive(Clone)]
struct WatchedPod {
    pod: Arc<Pod>,
    /// See [`scheduling_failure`].
    scheduling_failure: Option<String>,
}

impl WatchedPod {
    fn decode(object: &StoredObject) -> Result<Self, String> {
        let pod: Pod = decode(object)?;
        let scheduling_failure =
            if pod.unschedulable { scheduling_failure(&decode::<Value>(object)?) } else { None };
        Ok(Self { pod: Arc::new(pod), scheduling_failure })
    }
}

/// The decision of a view.
#[derive(Default)]
struct ViewDecision {
    /// `None` if the user lacks a right that the decision needs, or if the object is undecodable.
    report: Option<Report>,
    /// A sentence about the right that the user lacks.
    missing_right: Option<String>,
    /// Sentences about what could not be read.
    not_read: Vec<String>,
}

impl ViewDecision {
    fn without_right(error: &dyn std::fmt::Display) -> Self {
        let missing_right = format!(
            "The decision isn't computed, because you lack a right: {error}. The page shows the \
             controller's last report. The list and the conditions don't need the right."
        );
        Self { missing_right: Some(missing_right), ..Self::default() }
    }
}

/// Watches an autoscaler while a page shows it.
pub(crate) struct Detail {
    id: HpaKey,
    cluster: Arc<Cluster>,
    board: Arc<Board>,
    /// The field selector of the events, and their informer.
    events: Option<(String, Informer<EventLine>)>,
    /// The label selector of the pods, and their informer. `None` without a usable selector.
    pods: Option<(String, Informer<WatchedPod>)>,
    /// The read of the controller's records that has not ended, if there is one.
    record_reads: JoinSet<RecordOutcome>,
    /// The outcome of a read that ended after a view without its records was sent.
    late_records: Option<RecordOutcome>,
    /// Whether a view has had the outcome of a read.
    had_record_outcome: bool,
    /// The time of the controller's last known decision.
    decided_at: Option<Timestamp>,
    /// The last view that was read while the API server answered. It is shown during an outage.
    last_view: Option<View>,
}

impl Detail {
    pub(crate) fn new(id: HpaKey, cluster: Arc<Cluster>, board: Arc<Board>) -> Self {
        Self {
            id,
            cluster,
            board,
            events: None,
            pods: None,
            record_reads: JoinSet::new(),
            late_records: None,
            had_record_outcome: false,
            decided_at: None,
            last_view: None,
        }
    }

    /// Sends the view as JSON after each change, and otherwise once per sync period, until the
    /// receiver is dropped.
    pub(crate) async fn run(mut self, sender: mpsc::Sender<String>) {
        let mut changes = self.board.subscribe();
        let mut period = interval(self.cluster.options.sync_period.max(MIN_INTERVAL));
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            changes.borrow_and_update();
            let version = self.board.version_of(&self.id);
            let was_down = self.board.is_down();
            let view = self.current_view().await;
            let is_down = view.read_outcome == ReadOutcome::BeforeOutage;
            if was_down != is_down {
                // Start the informers again: their watches would resume only after a backoff.
                (self.events, self.pods, self.late_records) = (None, None, None);
            }
            if sender.send(view.to_json()).await.is_err() {
                return;
            }
            period.reset();
            loop {
                tokio::select! {
                    _ = period.tick() => break,
                    () = wait_for_change(&mut self.events) => break,
                    () = wait_for_change(&mut self.pods) => break,
                    Some(Ok(outcome)) = self.record_reads.join_next() => {
                        self.late_records = Some(outcome);
                        break;
                    }
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

    /// Reads the view. During an outage, returns the last view from before it. If there is none,
    /// the view has only what the list has.
    async fn current_view(&mut self) -> View {
        if !self.board.is_down() {
            let view = self.read_view().await;
            if view.read_outcome == ReadOutcome::Failed {
                // An outage of the API server may be the cause.
                self.cluster.probe.check_connection().await;
            }
            if !self.board.is_down() {
                self.last_view = Some(view.clone());
                return view;
            }
        }
        let now = self.cluster.options.clock.now();
        let view = match (&self.last_view, self.board.get(&self.id)) {
            (Some(last), _) => last.clone(),
            (None, Some(entry)) => View::new(entry, None, std::iter::empty(), now),
            (None, None) => View { is_complete: false, ..View::empty(self.id.clone(), now) },
        };
        View {
            now,
            problems: self.board.problems(),
            outage: self.board.outage_summary(),
            read_outcome: ReadOutcome::BeforeOutage,
            ..view
        }
    }

    async fn read_view(&mut self) -> View {
        match self.board.get(&self.id) {
            Some(entry) => self.read_view_of(entry).await,
            None => View {
                is_reading: self.board.is_reading(),
                is_complete: self.board.is_complete(&self.id),
                problems: self.board.problems(),
                outage: self.board.outage_summary(),
                ..View::empty(self.id.clone(), self.cluster.options.clock.now())
            },
        }
    }

    /// Reads the view of an autoscaler that is in the list.
    async fn read_view_of(&mut self, entry: Entry) -> View {
        let now = self.cluster.options.clock.now();
        let mut problems = self.board.problems();
        if let Some(sentence) = shared_target(&entry, &self.board.others_of_target(&self.id)) {
            problems.push(sentence);
        }
        let (mut records, ahead, mut missing) = self.read_records(&entry).await;
        let decisions = std::mem::take(&mut records.decisions);
        // Keep the last known decision while the controller can't be read, unless it was replaced.
        let known = self.decided_at.filter(|_| !self.is_by_built_in(&entry));
        self.decided_at = decisions.last().map(|last| last.until).or(known);
        let forecasts = records.forecasts.clone();
        problems.extend(records.status_write_error.take().map(|error| {
            format!("The controller can't store its status, so the conditions are old: {error}.")
        }));
        let doubt = self.doubt(&entry);
        let has_record = records.settings.is_some();
        let decision = self.decide(&entry, records, ahead, doubt.clone()).await;
        let ViewDecision { mut report, missing_right, not_read } = decision;
        let has_failed =
            !not_read.is_empty() || report.as_ref().is_some_and(|report| report.error.is_some());
        problems.extend(missing_right);
        missing.extend(not_read);
        let events = self.watch_events(&entry).await;
        let has_failed = has_failed || events.problem().is_some();
        let are_events_known = events.are_known();
        missing.extend(events.problem().map(|text| format!("Events can't be read: {text}.")));
        let lines = events.items.values();
        let scalings = lines.filter_map(|line| line.overwritten_scalings(shifted(now, -ahead)));
        let scalings = scalings.max_by_key(|one| one.seen_at).filter(|_| !has_record);
        if let (Some(report), Some(hpa)) = (&mut report, &entry.hpa) {
            report.add_overwritten_scalings(scalings, hpa);
            if let Some(clock) = self.board.wrong_clock(&self.id, &entry.controller, has_record) {
                report.sentence = format!("{}; {}", report.sentence, clock.clause);
            }
        }
        // Get the entry again: it has the sample of this decision now.
        let mut entry = self.board.get(&self.id).unwrap_or(entry);
        if let (None, Some(_), Some(doubt)) = (&report, &entry.hpa, doubt)
            && !entry.row.sentence.starts_with(&doubt)
        {
            entry.row.sentence = format!("{doubt}; before: {}", entry.row.sentence);
        }
        let now = self.cluster.options.clock.now();
        let read_outcome = if has_failed { ReadOutcome::Failed } else { ReadOutcome::Complete };
        let view = View::new(entry, report, events.items.into_values(), now);
        View {
            are_events_known,
            last_decision: self.decided_at.filter(|at| self.is_long_ago(*at)),
            forecasts,
            problems,
            missing,
            outage: self.board.outage_summary(),
            read_outcome,
            ..view.with_decisions(decisions)
        }
    }

    /// Reads the controller's records, and adds their samples to the board. Also returns the lead
    /// of the dashboard's clock over the controller's, by the records or else by the lease, and
    /// sentences about what could not be read, or has not been read yet.
    async fn read_records(
        &mut self,
        entry: &Entry,
    ) -> (ControllerRecords, SignedDuration, Vec<String>) {
        let wrong_clock = self.board.wrong_clock(&self.id, &entry.controller, false);
        let ahead = -wrong_clock.map(|clock| clock.lead).unwrap_or_default();
        let none =
            |why: &str| (ControllerRecords::default(), ahead, vec![format!("{UNKNOWN_PAST}{why}")]);
        let Some(source) = self.cluster.options.records.clone() else { return none("") };
        let outcome = self.await_records(source, entry).await;
        self.had_record_outcome |= outcome.is_some();
        let (mut records, ahead) = match outcome {
            Some(Ok(read)) => read,
            Some(Err(error)) => {
                return none(&format!(" The controller's records can't be read: {error}."));
            }
            None => {
                return none(
                    " The controller's records are pending: its debug API has not answered yet.",
                );
            }
        };
        self.board.record_past(&self.id, std::mem::take(&mut records.samples), ahead);
        for decision in &mut records.decisions {
            decision.from = shifted(decision.from, ahead);
            decision.until = shifted(decision.until, ahead);
        }
        let unknown = records.history.is_none().then(|| UNKNOWN_PAST.to_owned());
        (records, ahead, unknown.into_iter().collect())
    }

    /// Waits for the outcome of a read of the controller's records. `None` if the read has not
    /// ended in time.
    ///
    /// If an earlier read ended late, returns its outcome. If it is still running, doesn't wait for
    /// it. Otherwise starts a read, and waits at most [`RECORDS_TIMEOUT`] for the first outcome, or
    /// the timeout of a request for a later one.
    async fn await_records(
        &mut self,
        source: Arc<dyn RecordSource>,
        entry: &Entry,
    ) -> Option<RecordOutcome> {
        let late = self.late_records.take();
        if late.is_some() {
            return late;
        }
        let mut limit = Duration::ZERO;
        if self.record_reads.is_empty() {
            // Later views wait longer, because one without the records would replace one with them.
            let request_timeout = self.cluster.options.request_timeout;
            limit = if self.had_record_outcome { request_timeout } else { RECORDS_TIMEOUT };
            let (id, clock) = (self.id.clone(), self.cluster.options.clock.clone());
            let (manager, after) = (entry.controller.name.clone(), entry.series.past_until());
            self.record_reads.spawn(async move {
                let requested_at = clock.now();
                let records = source.records(&id, manager.as_deref(), after).await?;
                let lag = records.now.map(|at| clock_lag(at, requested_at, clock.now()));
                Ok((records, lag.unwrap_or_default()))
            });
        }
        let read = timeout(limit, self.record_reads.join_next()).await;
        read.ok().flatten().and_then(Result::ok)
    }

    /// Decides as the controller would, by its clock. The dashboard's clock leads it by `ahead`.
    /// Adds the sample of the decision to the board. `doubt` is the reason to doubt that a
    /// controller makes this decision too.
    async fn decide(
        &mut self,
        entry: &Entry,
        mut records: ControllerRecords,
        ahead: SignedDuration,
        doubt: Option<String>,
    ) -> ViewDecision {
        let Some(hpa) = &entry.hpa else { return ViewDecision::default() };
        let target = match self.cluster.targets.scale(hpa).await {
            // The user lacks the right, not the controller: the autoscaler doesn't fail.
            Err(ScaleUnavailable { error, is_forbidden: true, .. }) => {
                return ViewDecision::without_right(&error);
            }
            target => target.map_err(|unavailable| unavailable.error),
        };
        let selector = target.as_ref().ok().and_then(|target| target.scale.usable_selector());
        let pods = self.watch_pods(selector.as_ref()).await;
        if let Some(error) = pods.forbidden_error() {
            return ViewDecision::without_right(&error);
        }
        let mut not_read = Vec::new();
        not_read.extend(pods.problem().map(|text| format!("Pods can't be read: {text}.")));
        let inputs = self.inputs(entry, hpa, target, pods, &mut records).await;
        let (mut readings, problems) = self.cluster.metrics.read(&inputs).await;
        not_read.extend(problems.into_iter().map(|text| format!("Metrics can't be read: {text}.")));
        // The clock of samples is mostly right. In a simulation, it lags like the controller's.
        readings.set_clock_lead((-ahead).max(SignedDuration::ZERO));
        // Samples can be newer than the start of the reads, so take the time again.
        let now = shifted(self.cluster.options.clock.now(), -ahead);
        let mut inputs = Inputs { readings, now, ..inputs };
        fill_forecasts(&mut inputs, &records.forecasts);
        let (values, errors) = (&records.values, records.errors.clone());
        let filled = fill_readings(&mut inputs, values, records.are_values_current, errors);
        if !filled.is_empty() {
            not_read.push(format!(
                "The value of {} is the last one that the controller read: it can't be read here, \
                 or what was read here differs.",
                filled.join(" and ")
            ));
        }
        let mut report = self.explain(&inputs, &records, doubt).await;
        report.remove_advice_about_old_status(entry.controller.at);
        if let Some(sample) = Sample::from_report(&report, hpa) {
            let at = shifted(sample.at, ahead);
            self.board.record_sample(&self.id, Sample { at, ..sample });
        }
        ViewDecision { report: Some(report), missing_right: None, not_read }
    }

    /// The inputs of the decision, without readings. Takes the settings and the history out of
    /// `records`.
    async fn inputs(
        &self,
        entry: &Entry,
        hpa: &HorizontalPodAutoscaler,
        target: Result<ScaleObject, ScaleReadError>,
        pods: Objects<WatchedPod>,
        records: &mut ControllerRecords,
    ) -> Inputs {
        let scheduling_failures = pods.items.iter().filter_map(|(name, watched)| {
            Some((name.clone(), watched.scheduling_failure.clone()?))
        });
        let scheduling_failures = scheduling_failures.collect();
        let pods: Vec<_> = pods.items.into_values().map(|watched| watched.pod.clone()).collect();
        let acting = self.board.acting_controller(&self.id, &entry.controller);
        let options = &self.cluster.options;
        let settings = effective_settings(options.settings.clone(), records.settings.take());
        let settings = settings_of_controller(settings, hpa, &options.setting_policy, acting);
        let targets = &self.cluster.targets;
        let (selected, replica_failure) = match &target {
            Ok(target) => (
                targets.select_pods(hpa, &settings, target, pods).await,
                targets.replica_failure(hpa, &target.scale).await,
            ),
            Err(_) => (SelectedPods::new(pods), None),
        };
        let autoscalers = self.selecting_autoscalers(entry, &selected.pods).await;
        Inputs {
            hpa: hpa.clone(),
            scale: target.map(|target| target.scale),
            settings,
            selected: SelectedPods {
                autoscalers,
                own_name: Some(self.id.to_string()),
                bounds_conflict: entry.row.bounds_conflict.clone(),
                sharing_target: self.board.others_of_target(&self.id),
                replica_failure,
                scheduling_failures,
                ..selected
            },
            readings: Readings::new(),
            history: records.history.take(),
            now: options.clock.now(),
        }
    }

    /// The report of the decision on these inputs. `records` has the controller's last decision.
    async fn explain(
        &self,
        inputs: &Inputs,
        records: &ControllerRecords,
        doubt: Option<String>,
    ) -> Report {
        let stay = records.current_stay.as_ref().filter(|_| doubt.is_none());
        let doubt_about_pods = stay.and_then(|stay| stay.doubt(inputs));
        let advises_on_pods = doubt_about_pods.is_some();
        let doubt = doubt.or(doubt_about_pods);
        let advice = self.cluster.metrics.advise(inputs).await;
        let mut report = inputs.report_with_advice(doubt.clone(), &advice);
        // Without durations, because screen readers announce each change of the sentence.
        report.sentence = report.sentence_without_durations();
        if advises_on_pods {
            report.advice.insert(0, StayDecision::ADVICE.to_owned());
        }
        for advice in &mut report.advice {
            *advice = self.cluster.metrics.fill_placeholders(advice);
        }
        match (doubt, &records.decision_in_effect) {
            (Some(doubt), _) => {
                report.sentence = with_doubt_first(&report.sentence, &doubt);
            }
            // A replaced sentence comes with a doubt, so the page shows the state and desired
            // replicas of the status.
            (None, Some(decision)) if !report.dry_run => {
                replace_sentence(&mut report, decision, &records.errors);
            }
            _ => {}
        }
        report.add_overwritten_scalings(records.overwritten_scalings, &inputs.hpa);
        report
    }

    /// The reason to doubt that a controller makes this decision too. `None` if there is none.
    fn doubt(&self, entry: &Entry) -> Option<String> {
        let idle = self.board.idle_clause(&self.id);
        if idle.is_some() {
            return idle;
        }
        // kube-controller-manager has no debug API, so only its lease shows whether it runs.
        let has_debug_api =
            !entry.controller.is_kube_controller_manager() && !self.is_by_built_in(entry);
        let text = match self.decided_at {
            Some(at) if self.is_long_ago(at) => "the controller made its last decision long ago",
            None if has_debug_api && self.board.is_inactive() => {
                "the controller may make no decisions"
            }
            Some(_) | None => return None,
        };
        Some(text.to_owned())
    }

    /// Whether kube-controller-manager acts on the autoscaler, as far as that can be read.
    fn is_by_built_in(&self, entry: &Entry) -> bool {
        self.board.acting_controller(&self.id, &entry.controller).is_kube_controller_manager()
    }

    /// Whether a controller with its last decision at this time has probably stopped deciding.
    fn is_long_ago(&self, at: Timestamp) -> bool {
        self.cluster.options.clock.now().duration_since(at)
            > inactivity_limit(self.cluster.options.sync_period)
    }

    async fn watch_events(&mut self, entry: &Entry) -> Objects<EventLine> {
        let uid = entry.hpa.as_ref().map_or("", |hpa| &*hpa.metadata.uid);
        let events = self.cluster.core_api(&self.id.namespace, "Event", "events");
        watched_objects(&mut self.events, field_selector(&self.id, uid), |selector| {
            Informer::start(events, watcher::Config::default().fields(selector), EventLine::new)
        })
        .await
    }

    /// The pods that the selector selects.
    async fn watch_pods(&mut self, selector: Option<&Selector>) -> Objects<WatchedPod> {
        let Some(selector) = selector.map(ToString::to_string) else {
            self.pods = None;
            return Objects::default();
        };
        let pods = self.cluster.core_api(&self.id.namespace, "Pod", "pods");
        watched_objects(&mut self.pods, selector, |selector| {
            Informer::start(pods, watcher::Config::default().labels(selector), WatchedPod::decode)
        })
        .await
    }

    /// The autoscalers that select any of the pods. Other autoscalers are checked only if the
    /// controller reports an ambiguous selector, because each check costs requests.
    async fn selecting_autoscalers(&self, entry: &Entry, pods: &[Arc<Pod>]) -> Vec<String> {
        let active = entry.hpa.as_ref();
        let active = active.and_then(|hpa| hpa.status.condition(&ConditionType::ScalingActive));
        let is_ambiguous =
            active.is_some_and(|active| active.reason == ConditionReason::AmbiguousSelector);
        let mut names = match (pods.is_empty(), is_ambiguous) {
            (true, _) => return Vec::new(),
            (false, true) => {
                let others = self.board.others_of_controller(&self.id);
                self.cluster.targets.selecting_autoscalers(others, pods).await
            }
            (false, false) => Vec::new(),
        };
        names.push(self.id.to_string());
        names.sort();
        names
    }
}

/// Moves the doubt from the end of a report's sentence to its start. A dry run's sentence ends with
/// another doubt, which stays there.
fn with_doubt_first(sentence: &str, doubt: &str) -> String {
    let parts = sentence.rsplit_once(&format!("; {doubt}"));
    let (decision, end) = parts.unwrap_or((sentence, ""));
    format!("{doubt}; {decision}{end}")
}

/// A sentence about other autoscalers of the same target, if there are any.
fn shared_target(entry: &Entry, others: &[String]) -> Option<String> {
    if let Some(conflict) = &entry.row.bounds_conflict {
        return Some(format!("This autoscaler {conflict}. Delete one."));
    }
    let verb = if others.len() == 1 { "scales" } else { "scale" };
    let target = &entry.row.target;
    let names = list_first(others, MAX_NAMES, " and ");
    (!others.is_empty()).then(|| format!("{names} {verb} {target} too."))
}

/// The objects that a selector selects. Starts an informer if the selector is new, and waits for
/// its first list, at most [`FIRST_LIST_TIMEOUT`].
async fn watched_objects<T: Clone + Send + Sync + 'static>(
    watched: &mut Option<(String, Informer<T>)>,
    selector: String,
    start: impl FnOnce(&str) -> Informer<T>,
) -> Objects<T> {
    let current = watched.take().filter(|(current, _)| *current == selector);
    let informer = current.map_or_else(|| start(&selector), |(_, informer)| informer);
    let (_, informer) = watched.insert((selector, informer));
    let _ = timeout(FIRST_LIST_TIMEOUT, informer.wait_for_first_list()).await;
    informer.objects()
}

/// Waits for a change of the informer's objects. Without an informer, waits forever.
async fn wait_for_change<T: Send + Sync + 'static>(informer: &mut Option<(String, Informer<T>)>) {
    match informer {
        Some((_, informer)) => informer.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::at_the_end("scales: why; no one acts", "no one acts; scales: why")]
    #[case::before_a_dry_run(
        "scales: why; no one acts; nothing is written",
        "no one acts; scales: why; nothing is written"
    )]
    #[case::absent("stays: why", "no one acts; stays: why")]
    fn doubt_is_first_and_only_once(#[case] sentence: &str, #[case] expected: &str) {
        assert_eq!(with_doubt_first(sentence, "no one acts"), expected);
    }
}
