//! What a shadow run came to.

use std::fmt;

use super::record::Verdict;
use crate::{cache::Autoscalers, key::HpaKey};

/// The sum of all comparisons of the autoscalers that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The autoscalers.
    pub autoscalers: usize,
    /// Those that were compared at least once.
    pub compared: usize,
    /// The comparisons.
    pub decisions: u64,
    /// Those that differed for certain.
    pub different: u64,
    /// Those that differed, but not for long, or before enough of the past was known.
    pub unsettled: u64,
    /// The autoscalers that differed for certain, by name.
    pub rows: Vec<Row>,
}

/// An autoscaler that differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The autoscaler.
    pub key: HpaKey,
    /// Its comparisons.
    pub decisions: u64,
    /// How many of them differed for certain.
    pub different: u64,
    /// What differed in the last of these.
    pub differences: Vec<String>,
    /// How our last decision that differed came about.
    pub ours: String,
    /// What the other controller told of its own.
    pub theirs: String,
}

impl Summary {
    /// Sums up what is known of these autoscalers.
    pub fn of(autoscalers: &Autoscalers) -> Self {
        let mut all = autoscalers.all();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut summary = Self { autoscalers: all.len(), ..Self::default() };
        for (key, autoscaler) in all {
            let shadow = autoscaler.shadow.lock();
            let Some(record) = shadow.as_ref() else { continue };
            let decisions = record.counts.iter().sum();
            let [_, unsettled, different] = record.counts;
            summary.compared += usize::from(decisions > 0);
            summary.decisions += decisions;
            summary.different += different;
            summary.unsettled += unsettled;
            if let Some(last) = &record.last {
                let differences = last.differences.iter().map(ToString::to_string).collect();
                let (ours, theirs) = (last.ours.clone(), last.theirs.clone());
                summary.rows.push(Row { key, decisions, different, differences, ours, theirs });
            }
        }
        summary
    }
}

/// `12 HPAs, 480 decisions, 0 differences`, and a block for each autoscaler that differed.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { autoscalers, compared, decisions, different, unsettled, rows } = self;
        writeln!(f, "{autoscalers} HPAs, {decisions} decisions, {different} differences")?;
        if compared < autoscalers {
            let silent = autoscalers - compared;
            writeln!(
                f,
                "{silent} HPAs were not compared: the other controller said nothing of them"
            )?;
        }
        if *unsettled > 0 {
            writeln!(
                f,
                "{unsettled} decisions differed only for the moment, or while the past was not known, and do not count"
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

// The counts are indexed so.
const _: () = assert!(
    Verdict::Same as usize == 0
        && Verdict::Unsettled as usize == 1
        && Verdict::Different as usize == 2
);
