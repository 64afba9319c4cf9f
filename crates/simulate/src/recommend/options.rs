//! How to search.

/// The part of the candidates that comes from changes of the best ones.
const REFINED_PART: f64 = 0.3;
/// The part of the candidates that all runs are made of.
const FINALISTS_PART: f64 = 0.25;

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// How many settings to try.
    pub candidates: usize,
    /// How many seeds to run each of the best with.
    pub seeds: u64,
    /// By how much the load is multiplied. Every seed runs with each factor.
    pub load_factors: Vec<f64>,
    /// A risk up to here is low enough: prefer a lower cost.
    pub max_risk: f64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { candidates: 1000, seeds: 3, load_factors: vec![1.0, 1.15], max_risk: 0.001 }
    }
}

impl SearchOptions {
    /// The number of runs of a search, for a progress bar.
    pub fn runs(&self) -> usize {
        let trials = self.trials();
        self.candidates + 2 + (self.finalists() + 2) * trials.saturating_sub(1)
    }

    /// How many candidates come from changes of the best ones.
    pub(super) fn refined(&self) -> usize {
        part(self.candidates, REFINED_PART)
    }

    /// How many candidates all runs are made of.
    pub(super) fn finalists(&self) -> usize {
        part(self.candidates, FINALISTS_PART).max(1)
    }

    fn trials(&self) -> usize {
        usize::try_from(self.seeds).unwrap_or(usize::MAX).saturating_mul(self.load_factors.len())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a count is a count"
)]
fn part(count: usize, share: f64) -> usize {
    (count as f64 * share) as usize
}
