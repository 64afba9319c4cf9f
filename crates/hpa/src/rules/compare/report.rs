//! The report of a comparison.

use std::{collections::BTreeSet, fmt};

use hpa_calc::explain::counted;

use super::{OPTIONAL_APIS, requests::MetricRequest, server::SkipReason};
use crate::rules::outcome::Outcome;

/// The prefixes of the paths of requests for custom metrics.
const CUSTOM_V1BETA1: &str = "/apis/custom.metrics.k8s.io/v1beta1/";
const CUSTOM_V1BETA2: &str = "/apis/custom.metrics.k8s.io/v1beta2/";

pub(super) struct Report {
    pub(super) left: ServerSummary,
    pub(super) right: ServerSummary,
    pub(super) apis: Vec<ApiComparison>,
    /// The number of autoscalers whose metrics were requested.
    pub(super) autoscaler_count: usize,
    /// In the order of the paths, without those that [repeat v1beta1](Report::repeats_v1beta1).
    pub(super) requests: Vec<RequestComparison>,
}

/// A server, and the statuses of its responses.
pub(super) struct ServerSummary {
    /// The name in sentences, such as `the right server`.
    label: String,
    has_token: bool,
    /// The statuses of the responses to requests for lists of metrics.
    pub(super) statuses: BTreeSet<u16>,
}

/// The metrics that an API lists on both servers.
#[derive(Default)]
pub(super) struct ApiComparison {
    pub(super) name: &'static str,
    /// Whether both servers have the API.
    pub(super) is_compared: bool,
    /// The number of metrics that both servers have.
    pub(super) common_count: usize,
    pub(super) only_left: Vec<String>,
    pub(super) only_right: Vec<String>,
    /// A line about the server that lacks the API, if only one server has it.
    pub(super) unserved: Option<String>,
    /// The reasons why the lists are not compared, such as errors.
    pub(super) obstacles: Vec<String>,
    /// As in [`RequestComparison::skip_reason`].
    pub(super) skip_reason: Option<SkipReason>,
    pub(super) statuses_differ: bool,
}

/// The values that a request returned on both servers.
pub(super) struct RequestComparison {
    pub(super) request: MetricRequest,
    /// Whether both servers returned a list of values, which may be empty.
    pub(super) is_compared: bool,
    /// The reason why the values are not compared, which is no difference.
    pub(super) skip_reason: Option<SkipReason>,
    /// The number of compared values, as on the left server.
    pub(super) value_count: usize,
    pub(super) differences: Vec<String>,
}

impl Report {
    /// The number of metrics and requests that differ.
    pub(super) fn difference_count(&self) -> usize {
        self.list_difference_count() + self.different_request_count()
    }

    /// The number of metrics that only one server lists, and of APIs that only one server has. A
    /// version with the same metrics as an earlier one of its API doesn't count again.
    fn list_difference_count(&self) -> usize {
        let repeats = |index: usize, api: &ApiComparison| {
            self.apis.iter().take(index).any(|earlier| api.has_the_differences_of(earlier))
        };
        let apis = self.apis.iter().enumerate().filter(|(index, api)| !repeats(*index, api));
        apis.map(|(_, api)| api.difference_count()).sum()
    }

    /// Whether a request for v1beta2 of custom metrics had the result of the same request for
    /// v1beta1. Adapters usually answer both with the same values, which count once.
    pub(super) fn repeats_v1beta1(&self, compared: &RequestComparison) -> bool {
        let Some(rest) = compared.request.path.strip_prefix(CUSTOM_V1BETA2) else { return false };
        let path = format!("{CUSTOM_V1BETA1}{rest}");
        let earlier = self.requests.binary_search_by(|one| one.request.path.cmp(&path));
        let earlier = earlier.ok().and_then(|index| self.requests.get(index));
        earlier.is_some_and(|earlier| earlier.result() == compared.result())
    }

    /// The number of requests whose values differ.
    fn different_request_count(&self) -> usize {
        let differs =
            |one: &&RequestComparison| one.skip_reason.is_none() && !one.differences.is_empty();
        self.requests.iter().filter(differs).count()
    }

    /// The number of requests, also for lists of metrics, that a server didn't answer for a reason.
    fn skipped_count(&self, reason: SkipReason) -> usize {
        let lists = self.apis.iter().map(|api| api.skip_reason);
        let all = lists.chain(self.requests.iter().map(|request| request.skip_reason));
        all.filter(|skip_reason| *skip_reason == Some(reason)).count()
    }

    /// The ends of the first line about requests that were not compared, one for each reason.
    fn describe_skipped(&self) -> Vec<String> {
        let requests = |reason| {
            let count = self.skipped_count(reason);
            (count > 0).then(|| counted(count, "request"))
        };
        let unavailable = requests(SkipReason::Unavailable)
            .map(|count| format!("; {count} not compared (429, 502, 503 or 504)"));
        let forbidden = requests(SkipReason::Forbidden)
            .map(|count| format!("; {count} could not be compared: forbidden (403)"));
        unavailable.into_iter().chain(forbidden).collect()
    }

    /// Whether nothing was compared: no list of metrics, and no values.
    pub(super) fn compared_nothing(&self) -> bool {
        !self.apis.iter().any(|api| api.is_compared)
            && !self.requests.iter().any(|request| request.is_compared)
    }

    /// The first line of the report.
    fn headline(&self) -> String {
        let values = counted(self.compared_value_count(), "value");
        if self.compared_nothing() {
            let sides = [&self.left, &self.right].into_iter();
            let reasons: Vec<_> = sides.filter_map(ServerSummary::refusal).collect();
            let reasons = if reasons.is_empty() {
                "no list of metrics, and no value, could be read from both servers".to_owned()
            } else {
                reasons.join(", and ")
            };
            return format!("{reasons}: nothing was compared");
        }
        let skipped = self.describe_skipped();
        let compared = match (self.difference_count(), self.compared_value_count()) {
            (0, 0) if !skipped.is_empty() => "no value was compared".to_owned(),
            (0, 0) => "no value was compared; the lists of metrics are equal".to_owned(),
            (0, _) => format!("no differences: {values} compared"),
            (differences, _) => {
                let differences = counted(differences, "difference");
                match (self.list_difference_count(), self.different_request_count()) {
                    (0, _) => format!("{differences}: {values} compared"),
                    (lists, requests) => format!(
                        "{differences} ({lists} in lists of metrics, {requests} in values): \
                         {values} compared"
                    ),
                }
            }
        };
        let without_value = self.requests.iter().filter(|request| request.lacks_value()).count();
        let without_value = (without_value > 0)
            .then(|| format!("; {} without a value on both", counted(without_value, "request")));
        compared + &skipped.concat() + &without_value.unwrap_or_default()
    }

    /// If only lists of metrics were compared, and they are equal, nothing is known about values.
    /// Requests that were not answered may differ.
    pub(super) fn outcome(&self) -> Outcome {
        if self.compared_nothing() {
            Outcome::Inconclusive
        } else if self.difference_count() > 0 {
            Outcome::Failure
        } else if self.compared_value_count() == 0 || !self.describe_skipped().is_empty() {
            Outcome::Inconclusive
        } else {
            Outcome::Success
        }
    }

    pub(super) fn compared_value_count(&self) -> usize {
        self.requests.iter().map(|request| request.value_count).sum()
    }
}

impl RequestComparison {
    /// Whether both servers answered, and neither has a value: for example, because the metric is
    /// misspelled.
    fn lacks_value(&self) -> bool {
        self.skip_reason.is_none() && self.differences.is_empty() && self.value_count == 0
    }

    /// The result without the request.
    fn result(&self) -> (bool, Option<SkipReason>, usize, &[String]) {
        let Self { request: _, is_compared, skip_reason, value_count, differences } = self;
        (*is_compared, *skip_reason, *value_count, differences.as_slice())
    }
}

impl ServerSummary {
    pub(super) fn new(label: String, has_token: bool) -> Self {
        Self { label, has_token, statuses: BTreeSet::new() }
    }

    /// The reason why the server returned no list of metrics, if all responses had the same status.
    fn refusal(&self) -> Option<String> {
        let mut statuses = self.statuses.iter();
        let (Some(status), None) = (statuses.next(), statuses.next()) else { return None };
        let label = &self.label;
        Some(match status {
            200 => return None,
            401 if self.has_token => format!("{label} refuses the token (401)"),
            401 => format!("{label} refuses requests without valid credentials (401)"),
            403 => format!("{label} forbids the requests (403)"),
            404 => format!("{label} serves none of the metrics APIs (404)"),
            status => format!("{label} answers {status}"),
        })
    }
}

impl ApiComparison {
    /// Whether the values of the API are not compared, because its lists are not, and a server may
    /// lack it.
    pub(super) fn is_skipped(&self) -> bool {
        !self.is_compared && OPTIONAL_APIS.contains(&self.name)
    }

    /// Whether this is another version of the same API, and its lists differ in the same metrics.
    fn has_the_differences_of(&self, other: &Self) -> bool {
        let group = |api: &Self| api.name.split('/').next();
        group(self) == group(other)
            && self.statuses_differ == other.statuses_differ
            && self.only_left == other.only_left
            && self.only_right == other.only_right
    }

    fn difference_count(&self) -> usize {
        let metrics = self.only_left.len() + self.only_right.len();
        // Different statuses are a difference even if neither server lists a metric.
        metrics.max(usize::from(self.statuses_differ))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        for api in &self.apis {
            write!(f, "{api}")?;
        }
        let different = self.different_request_count();
        writeln!(
            f,
            "{} for the metrics of {}, {}: differences in {}",
            counted(self.requests.len(), "request"),
            counted(self.autoscaler_count, "autoscaler"),
            counted(self.compared_value_count(), "value"),
            counted(different, "request"),
        )?;
        for compared in &self.requests {
            let RequestComparison { request, differences, skip_reason, .. } = compared;
            let is_forbidden = *skip_reason == Some(SkipReason::Forbidden);
            if differences.is_empty() && !is_forbidden && !compared.lacks_value() {
                continue;
            }
            let autoscalers: Vec<&str> = request.autoscalers.iter().map(String::as_str).collect();
            writeln!(f, "  {} ({})", request.path, autoscalers.join(", "))?;
            for difference in differences {
                writeln!(f, "    {difference}")?;
            }
            if compared.lacks_value() {
                writeln!(f, "    neither server has a value")?;
            }
            if is_forbidden {
                writeln!(f, "    needed right: {}", request.needed_right())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ApiComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.obstacles.is_empty() {
            writeln!(f, "{}: not compared", self.name)?;
            return self.obstacles.iter().try_for_each(|reason| writeln!(f, "  {reason}"));
        }
        if !self.is_compared && self.unserved.is_none() {
            return writeln!(f, "{}: neither server has it", self.name);
        }
        writeln!(
            f,
            "{}: both list {}, only left {}, only right {}",
            self.name,
            counted(self.common_count, "metric"),
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
