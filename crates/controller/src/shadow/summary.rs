//! The result of a shadow run.

use std::fmt;

use super::record::{ShadowRecords, Verdict};
use crate::{cache::Autoscalers, key::HpaKey};

/// All comparisons of the cached autoscalers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub autoscalers: usize,
    /// The autoscalers with at least one comparison.
    pub compared: usize,
    /// The comparisons.
    pub decisions: u64,
    /// The comparisons with the verdict [`Verdict::Different`].
    pub different: u64,
    /// The comparisons with the verdict [`Verdict::Unsettled`].
    pub unsettled: u64,
    /// The autoscalers with a difference, by name.
    pub rows: Vec<Row>,
}

/// An autoscaler with a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: HpaKey,
    /// Its comparisons.
    pub decisions: u64,
    /// Those with the verdict [`Verdict::Different`].
    pub different: u64,
    /// The differences of the last of these.
    pub differences: Vec<String>,
    /// The explanation of our decision in that comparison.
    pub ours: String,
    /// The peer's status in that comparison.
    pub theirs: String,
}

impl Summary {
    pub(crate) fn new(autoscalers: &Autoscalers, records: &ShadowRecords) -> Self {
        let mut all = autoscalers.all();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut summary = Self { autoscalers: all.len(), ..Self::default() };
        for (key, autoscaler) in all {
            let Some(record) = records.get(&key, &autoscaler) else { continue };
            let record = record.lock();
            let decisions = record.counts.iter().sum();
            let [_, unsettled, different] = record.counts;
            summary.compared += usize::from(decisions > 0);
            summary.decisions += decisions;
            summary.different += different;
            summary.unsettled += unsettled;
            if let Some(last) = &record.last_difference {
                let differences = last.differences.iter().map(ToString::to_string).collect();
                let (ours, theirs) = (last.ours.clone(), last.theirs.clone());
                summary.rows.push(Row { key, decisions, different, differences, ours, theirs });
            }
        }
        summary
    }
}

/// `12 HPAs, 480 decisions, 0 differences`, and a block for each autoscaler with a difference.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { autoscalers, compared, decisions, different, unsettled, rows } = self;
        writeln!(f, "{autoscalers} HPAs, {decisions} decisions, {different} differences")?;
        if compared < autoscalers {
            let missing = autoscalers - compared;
            writeln!(
                f,
                "{missing} HPAs were not compared: the other controller wrote no status for them"
            )?;
        }
        if *unsettled > 0 {
            writeln!(
                f,
                "{unsettled} decisions differed only briefly, or before enough of the past was \
                 known, and do not count"
            )?;
        }
        for Row { key, decisions, different, differences, ours, theirs } in rows {
            writeln!(f, "\n{key}: {different} of {decisions}")?;
            for difference in differences {
                writeln!(f, "  {difference}")?;
            }
            writeln!(f, "  ours:   {ours}\n  theirs: {theirs}")?;
        }
        Ok(())
    }
}

// `ShadowRecord::counts` is indexed by the verdict.
const _: () = assert!(
    Verdict::Same as usize == 0
        && Verdict::Unsettled as usize == 1
        && Verdict::Different as usize == 2
);
