//! The result of a shadow run.

use std::fmt;

use hpa_calc::explain::{counted, list_first, one_line};
use jiff::{SignedDuration, Timestamp};

use super::record::ShadowRecord;
use crate::{k8s::StatusWrite, key::HpaKey};

/// A peer that has not written a status for this long may have stopped: four default sync periods.
const QUIET_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The maximum number of inconclusive autoscalers that the report names.
const MAX_NAMES: usize = 5;

/// All comparisons of the cached autoscalers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub autoscaler_count: usize,
    /// The number of autoscalers with at least one comparison.
    pub compared_autoscaler_count: usize,
    pub comparison_count: u64,
    /// The number of comparisons that are [`Different`](super::ComparisonResult::Different).
    pub different_count: u64,
    /// The number of comparisons that are [`Unsettled`](super::ComparisonResult::Unsettled).
    pub unsettled_count: u64,
    /// The number of comparisons in which a difference could count, because the past was known.
    pub conclusive_comparison_count: u64,
    /// The compared autoscalers without a conclusive comparison, by name.
    pub inconclusive_autoscalers: Vec<HpaKey>,
    /// The longest stabilization window or policy period of the inconclusive autoscalers.
    pub longest_window: SignedDuration,
    /// Whether the peer wrote a status since the start.
    pub peer_is_active: bool,
    /// The last status write of the peer, and its age, as far as autoscalers record it.
    pub last_peer_write: Option<(StatusWrite, SignedDuration)>,
    /// The host that holds the lease of the peer. `None` if none does, or if that is unknown.
    pub peer_lease_holder: Option<String>,
    /// The autoscalers with a difference, by name.
    pub differing_autoscalers: Vec<DifferingAutoscaler>,
    /// The autoscalers with scalings of the peer that differ and don't count, by name.
    pub uncounted_scalings: Vec<UncountedScalings>,
}

/// An autoscaler with a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingAutoscaler {
    pub key: HpaKey,
    pub comparison_count: u64,
    /// The number of comparisons that are [`Different`](super::ComparisonResult::Different).
    pub different_count: u64,
    /// The last of these comparisons.
    pub last: ReportedDifference,
}

/// Scalings of the peer on an autoscaler that differ from our decisions and don't count, because
/// the peer's metric values or its past are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncountedScalings {
    pub key: HpaKey,
    pub scaling_count: u64,
    /// The comparison of the last of these scalings.
    pub last: ReportedDifference,
}

/// A comparison with differences, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedDifference {
    pub differences: Vec<String>,
    /// The explanation of our decision.
    pub ours: String,
    /// The peer's status.
    pub theirs: String,
}

impl fmt::Display for ReportedDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "  {}", one_line(difference))?;
        }
        let (ours, theirs) = (one_line(&self.ours), one_line(&self.theirs));
        writeln!(f, "  ours:   {ours}\n  theirs: {theirs}")
    }
}

impl Summary {
    /// Adds an autoscaler, with the last status write of a peer. `record` is `None` if this process
    /// has not compared decisions on it. Autoscalers must be added in the order of their keys.
    pub(crate) fn add(
        &mut self,
        key: HpaKey,
        peer_write: Option<StatusWrite>,
        record: Option<&ShadowRecord>,
        now: Timestamp,
    ) {
        self.autoscaler_count += 1;
        let last = self.last_peer_write.as_ref().map(|(last, _)| last.at);
        if let Some(write) = peer_write.filter(|write| last.is_none_or(|last| last <= write.at)) {
            // Whole seconds, as in `managedFields`. The API server's clock may be ahead.
            let age = now.duration_since(write.at).as_secs().max(0);
            self.last_peer_write = Some((write, SignedDuration::from_secs(age)));
        }
        let Some(record) = record else { return };
        let ShadowRecord { comparison_count, unsettled_count, different_count, .. } = *record;
        self.peer_is_active |= record.new_status_count > 0;
        self.compared_autoscaler_count += usize::from(comparison_count > 0);
        self.comparison_count += comparison_count;
        self.different_count += different_count;
        self.unsettled_count += unsettled_count;
        self.conclusive_comparison_count += record.conclusive_comparison_count;
        if comparison_count > 0 && record.conclusive_comparison_count == 0 {
            let window =
                SignedDuration::try_from(record.relevant_past).unwrap_or(SignedDuration::MAX);
            self.inconclusive_autoscalers.push(key.clone());
            self.longest_window = self.longest_window.max(window);
        }
        if let Some(last) = &record.last_uncounted_scaling {
            self.uncounted_scalings.push(UncountedScalings {
                key: key.clone(),
                scaling_count: record.uncounted_scaling_count,
                last: last.clone(),
            });
        }
        if let Some(last) = &record.last_difference {
            self.differing_autoscalers.push(DifferingAutoscaler {
                key,
                comparison_count,
                different_count,
                last: last.clone(),
            });
        }
    }

    /// Whether the absence of differences is meaningful: the peer was active, and a difference
    /// could count.
    pub fn is_conclusive(&self) -> bool {
        self.peer_is_active && self.conclusive_comparison_count > 0
    }

    /// The number of scalings of the peer that differ from our decisions and don't count.
    pub fn uncounted_scaling_count(&self) -> u64 {
        self.uncounted_scalings.iter().map(|one| one.scaling_count).sum()
    }

    /// Whether the peer may have stopped, as far as autoscalers record its writes. If it wrote just
    /// before the start, a short comparison sees no write.
    pub fn peer_is_quiet(&self) -> bool {
        self.last_peer_write.as_ref().is_none_or(|(_, age)| *age > QUIET_AFTER)
    }

    /// Writes the time of the peer's last status write.
    fn write_peer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((StatusWrite { manager, .. }, age)) = &self.last_peer_write else {
            return writeln!(f, "The statuses don't record which controller wrote them, or when");
        };
        let manager = one_line(manager);
        let doubt = match &self.peer_lease_holder {
            _ if !self.peer_is_quiet() => String::new(),
            // A peer without changes has no status to write.
            Some(host) => format!("; {} holds its lease", one_line(host)),
            None => ": it may have stopped".to_owned(),
        };
        if self.peer_is_active {
            return writeln!(f, "The peer ({manager}) last wrote a status {age:#} ago{doubt}");
        }
        writeln!(
            f,
            "The peer ({manager}) wrote no status during the comparison, the last one {age:#} \
             ago{doubt}"
        )
    }
}

/// Prints the peer's last write, the autoscalers and decisions that don't count, and a block for
/// each autoscaler with a difference or with scalings that don't count.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { autoscaler_count, compared_autoscaler_count, unsettled_count, .. } = self;
        self.write_peer(f)?;
        if compared_autoscaler_count < autoscaler_count {
            let missing = counted(autoscaler_count - compared_autoscaler_count, "autoscaler");
            writeln!(f, "{missing} not compared: no status of the peer to compare with yet")?;
        }
        let inconclusive = &self.inconclusive_autoscalers;
        if !inconclusive.is_empty() {
            let names: Vec<String> = inconclusive.iter().map(ToString::to_string).collect();
            writeln!(
                f,
                "{} could not show a difference: stabilization windows and policy periods (up to \
                 {:#}) had not passed since the start ({})",
                counted(inconclusive.len(), "autoscaler"),
                self.longest_window,
                list_first(&names, MAX_NAMES, ", ")
            )?;
        }
        if *unsettled_count > 0 {
            writeln!(
                f,
                "{} not counted: the difference was brief, or not enough of the past was known",
                counted(*unsettled_count, "decision")
            )?;
        }
        for differing in &self.differing_autoscalers {
            let DifferingAutoscaler { key, comparison_count, different_count, last } = differing;
            write!(f, "\n{key}: {different_count} of {comparison_count}\n{last}")?;
        }
        for UncountedScalings { key, scaling_count, last } in &self.uncounted_scalings {
            let scalings = counted(*scaling_count, "scaling");
            write!(f, "\n{key}: {scalings} of the peer not counted, the last one:\n{last}")?;
        }
        Ok(())
    }
}
