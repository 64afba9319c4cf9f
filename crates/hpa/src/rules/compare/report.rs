//! The report of a comparison.

use std::fmt;

use hpa_calc::explain::counted;

use super::requests::MetricRequest;

#[derive(Default)]
pub(super) struct Report {
    pub(super) apis: Vec<Api>,
    pub(super) autoscalers: usize,
    pub(super) requests: Vec<Comparison>,
}

/// The metrics that an API lists.
#[derive(Default)]
pub(super) struct Api {
    pub(super) name: &'static str,
    /// Whether at least one server has the API.
    pub(super) is_served: bool,
    /// The number of metrics that both servers have.
    pub(super) common: usize,
    pub(super) only_left: Vec<String>,
    pub(super) only_right: Vec<String>,
    /// A line about the server that doesn't serve the API, if only the other one does.
    pub(super) unserved: Option<String>,
    /// The errors that prevented a comparison of the lists.
    pub(super) errors: Vec<String>,
    pub(super) statuses_differ: bool,
}

/// The values that a request returned.
pub(super) struct Comparison {
    pub(super) request: MetricRequest,
    /// The number of values of the left server.
    pub(super) values: usize,
    pub(super) differences: Vec<String>,
}

impl Report {
    /// The number of metrics and requests that differ.
    pub(super) fn differences(&self) -> usize {
        let metrics: usize = self.apis.iter().map(Api::differences).sum();
        metrics + self.requests.iter().filter(|request| !request.differences.is_empty()).count()
    }

    /// The number of compared values.
    pub(super) fn values(&self) -> usize {
        self.requests.iter().map(|request| request.values).sum()
    }
}

impl Api {
    fn differences(&self) -> usize {
        let metrics = self.only_left.len() + self.only_right.len();
        // Different statuses are a difference even if the API lists no metrics.
        metrics.max(usize::from(self.statuses_differ))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for api in &self.apis {
            write!(f, "{api}")?;
        }
        let different =
            self.requests.iter().filter(|request| !request.differences.is_empty()).count();
        writeln!(
            f,
            "{} for the metrics of {}, {}: {different} differ",
            counted(self.requests.len(), "request"),
            counted(self.autoscalers, "autoscaler"),
            counted(self.values(), "value"),
        )?;
        for Comparison { request, differences, .. } in &self.requests {
            if differences.is_empty() {
                continue;
            }
            let autoscalers: Vec<&str> = request.autoscalers.iter().map(String::as_str).collect();
            writeln!(f, "  {} ({})", request.path, autoscalers.join(", "))?;
            for difference in differences {
                writeln!(f, "    {difference}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.errors.is_empty() {
            writeln!(f, "{}: not compared", self.name)?;
            return self.errors.iter().try_for_each(|error| writeln!(f, "  {error}"));
        }
        if !self.is_served {
            return writeln!(f, "{}: neither server has it", self.name);
        }
        writeln!(
            f,
            "{}: both list {}, only left {}, only right {}",
            self.name,
            counted(self.common, "metric"),
            self.only_left.len(),
            self.only_right.len()
        )?;
        if let Some(unserved) = &self.unserved {
            writeln!(f, "  {unserved}")?;
        }
        for (side, metrics) in [("left", &self.only_left), ("right", &self.only_right)] {
            for metric in metrics {
                writeln!(f, "  only {side}: {metric}")?;
            }
        }
        Ok(())
    }
}
