//! The report of rules that were checked against a Prometheus server.

use hpa_calc::explain::list_first;
use hpa_metrics::resource::GroupResource;
use hpa_prometheus::{
    promql::{self, Node},
    rules::{
        Config, RuleSet,
        config::{Finding, Position},
        lint::{lint_each, merge_unknown_fields},
        query::with_single_spaces,
        resource_metrics::UsageResource,
    },
    source::{InspectedMetric, RuleInspection},
};

use crate::rules::{
    outcome::{MAX_NAMED, QueryProblem, UNCHECKED},
    resource::{self, ClusterObjects, ResultObjects},
    series,
    servers::RuleServers,
};

/// The report lists at most this many metrics of a rule, and values of an external metric.
pub(super) const MAX_METRICS: usize = 10;

/// The rules that could not be checked for the same cause.
pub(super) struct UncheckedRules {
    /// The failure, with the server.
    pub(super) cause: String,
    pub(super) rules: Vec<String>,
}

/// The report. The caller takes its `text` after each rule.
pub(super) struct Report<'p> {
    pub(super) servers: &'p RuleServers<'p>,
    /// The names of the refused rules.
    refused: Vec<String>,
    /// The paths of the fields in which `lint` found a mistake.
    mistaken_fields: Vec<String>,
    /// The findings about the file that are not in the text yet.
    file_findings: Vec<Finding>,
    pub(super) text: String,
    /// The name and the position of the current rule.
    current_rule: (String, Option<Position>),
    /// The problems and warnings in the text.
    pub(super) findings: Vec<Finding>,
    /// The rules whose server didn't answer, which are no problems. The first line lists them.
    pub(super) unchecked: Vec<UncheckedRules>,
    /// The kinds of objects in the results of `resourceRules` that could not be compared with the
    /// cluster, with the reasons.
    pub(super) cluster_failures: Vec<String>,
}

impl<'p> Report<'p> {
    /// An empty report, with the findings about the file.
    pub(super) fn new(servers: &'p RuleServers<'p>, config: &Config, compiled: &RuleSet) -> Self {
        let lint_findings = lint_each(config, compiled, &servers.source.resources());
        let mistakes = lint_findings.iter().filter(|finding| !finding.is_warning);
        let mistaken_fields = mistakes.map(|finding| finding.path.clone()).collect();
        let compiler_findings: Vec<Finding> = compiled.errors().map(Finding::from).collect();
        Self {
            servers,
            refused: compiled.errors().map(|error| error.rule.clone()).collect(),
            mistaken_fields,
            file_findings: [compiler_findings, merge_unknown_fields(lint_findings)].concat(),
            text: String::new(),
            current_rule: (String::new(), None),
            findings: Vec::new(),
            unchecked: Vec::new(),
            cluster_failures: Vec::new(),
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn warning(&mut self, text: &str) {
        self.add_finding(true, text);
    }

    pub(super) fn problem(&mut self, text: &str) {
        self.add_finding(false, text);
    }

    /// Reports a finding about the current rule.
    fn add_finding(&mut self, is_warning: bool, text: &str) {
        let ((path, position), message) = (self.current_rule.clone(), with_single_spaces(text));
        self.record(&message, Finding { path, position, is_warning, message: message.clone() });
    }

    /// Adds a finding, and a line with this text about it.
    fn record(&mut self, text: &str, finding: Finding) {
        let severity = if finding.is_warning { "warning" } else { "problem" };
        self.line(&format!("  {severity}: {text}"));
        self.findings.push(finding);
    }

    pub(super) fn not_checked(&mut self, rule: &str, cause: &str) {
        let text = self.add_unchecked(rule, cause);
        self.line(&format!("  {text}"));
    }

    /// Records a rule that could not be checked. Returns the text in place of its result. It has
    /// the cause if the first line doesn't.
    fn add_unchecked(&mut self, rule: &str, cause: &str) -> String {
        let (rule, cause) = (rule.to_owned(), with_single_spaces(cause));
        let index = self.unchecked.iter().position(|known| known.cause == cause);
        let is_in_first_line = index.unwrap_or(self.unchecked.len()) < MAX_NAMED;
        let text =
            if is_in_first_line { UNCHECKED.to_owned() } else { format!("not checked: {cause}") };
        match index.and_then(|index| self.unchecked.get_mut(index)) {
            Some(known) if known.rules.contains(&rule) => {}
            Some(known) => known.rules.push(rule),
            None => self.unchecked.push(UncheckedRules { cause, rules: vec![rule] }),
        }
        text
    }

    /// Reports that no sample could be looked up.
    pub(super) fn add_lookup_problem(&mut self, rule: &RuleInspection, problem: &QueryProblem) {
        match problem {
            QueryProblem::Mistake(text) => {
                self.problem(&format!("the query for a sample failed: {text}"));
            }
            QueryProblem::Unanswered(cause) => self.not_checked(&rule.status.rule, cause),
        }
    }

    /// Reports that a rule has no series. This is only a warning if its query has no metric name.
    fn add_unused_rule(&mut self, series_query: &str, text: &str) {
        if has_metric_name(series_query) { self.problem(text) } else { self.warning(text) }
    }

    /// Reports the findings about the file's fields whose path starts with `prefix`.
    fn add_file_findings(&mut self, prefix: &str) {
        let findings =
            self.file_findings.extract_if(.., |finding| finding.path.starts_with(prefix));
        for finding in findings.collect::<Vec<_>>() {
            let Finding { path, position, message, .. } = &finding;
            let position = position.map(|at| format!("{at}: ")).unwrap_or_default();
            self.record(&with_single_spaces(&format!("{position}{path}: {message}")), finding);
        }
    }

    /// Reports a rule, its metrics, and a sample of one of them.
    pub(super) async fn add_rule(&mut self, rules: &[RuleInspection], index: usize) {
        let Some(rule) = rules.get(index) else { return };
        let status = &rule.status;
        let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
        let query = with_single_spaces(&rule.definition.series_query);
        self.line(&format!("{}{position}: {query}", status.rule));
        self.current_rule = (status.rule.clone(), rule.position);
        let prefix = format!("{}.", status.rule);
        self.add_file_findings(&prefix);
        if self.refused.contains(&status.rule) {
            return;
        }
        let is_mistaken = self.mistaken_fields.iter().any(|path| path.starts_with(&prefix));
        let unchecked = "  not queried, because of the mistake in the rule";
        if self.mistaken_fields.contains(&format!("{prefix}seriesQuery")) {
            return self.line(unchecked);
        }
        if let Some(failure) = &rule.server_failure {
            return self.not_checked(&status.rule, failure);
        }
        if let Some(error) = &status.error {
            return self.problem(error);
        }
        // A series has a metric for each resource that one of its labels names.
        self.line(&format!("  series: {}, metrics: {}", status.series_count, rule.metrics.len()));
        if status.series_count == 0 {
            return self.add_missing_series(rule).await;
        }
        if is_mistaken {
            return self.line(unchecked);
        }
        if rule.metrics.is_empty() {
            let query = &rule.definition.series_query;
            return if status.metric_count == 0 {
                self.add_unused_rule(query, "no series passes seriesFilters and name.matches");
            } else {
                self.problem(&format!(
                    "no label of the series is mapped to a resource; the labels are {}: map the \
                     one with the object's name in resources.overrides, or use externalRules if \
                     the series are of no object",
                    series::list_labels(&rule.labels)
                ));
            };
        }
        self.add_metrics(rules, rule);
        self.add_resources_without_metrics(rule);
        self.add_sample_of_rule(index, rule).await;
    }

    /// Reports a sample of one of the rule's metrics: of pods if there is one, and of namespaces
    /// only if there is no other.
    async fn add_sample_of_rule(&mut self, index: usize, rule: &RuleInspection) {
        let named: Vec<_> =
            rule.metrics.iter().filter(|metric| !metric.metric.is_empty()).collect();
        let used = named.iter().filter(|metric| metric.shadowed_by.is_none());
        // Without the label of the namespace, only cluster-scoped objects can have a sample.
        let (pods, namespaces) = (GroupResource::pods(), GroupResource::namespaces());
        let namespace_label = self.servers.source.object_label(index, &namespaces);
        let has_namespace = namespace_label.is_some_and(|label| rule.labels.contains(&label));
        let rank = |metric: &&&InspectedMetric| match &metric.resource {
            Some(resource) if *resource == pods => (!has_namespace, 0),
            Some(resource) if *resource == namespaces => (false, 2),
            Some(resource) => (resource.has_namespaced_metrics() && !has_namespace, 1),
            None => (false, 0),
        };
        match used.min_by_key(rank) {
            Some(metric) => self.add_sample(index, rule, metric).await,
            None if !named.is_empty() => self.warning("all metrics come from later rules"),
            None => {}
        }
    }

    /// Reports that a rule has no series, with the reason.
    async fn add_missing_series(&mut self, rule: &RuleInspection) {
        let query = &rule.definition.series_query;
        let server = self.servers.server(&rule.definition.server);
        match server.explain_missing_series(query).await {
            Ok(reason) => {
                let unknown =
                    "Prometheus has no such series: check names and labels in seriesQuery";
                self.add_unused_rule(query, reason.as_deref().unwrap_or(unknown));
            }
            Err(problem) => {
                self.add_unused_rule(query, "no series has samples within the maximum age");
                if let QueryProblem::Unanswered(cause) = problem {
                    self.not_checked(&rule.status.rule, &cause);
                }
            }
        }
    }

    /// Lists the metrics of a rule.
    fn add_metrics(&mut self, rules: &[RuleInspection], rule: &RuleInspection) {
        let (named, nameless): (Vec<_>, Vec<_>) =
            rule.metrics.iter().partition(|metric| !metric.metric.is_empty());
        if let Some(metric) = nameless.first() {
            self.problem(&format!(
                "the name of the metric of {} is empty: check name.matches and name.as",
                metric.series
            ));
        }
        for metric in named.iter().take(MAX_METRICS) {
            let shadow = metric.shadowed_by.and_then(|by| rules.get(by));
            let note = shadow.map(|by| format!(" (not used: {} also has it)", by.status.rule));
            let name = display_name(metric);
            self.line(&format!("  {name} <- {}{}", metric.series, note.unwrap_or_default()));
        }
        if named.len() > MAX_METRICS {
            self.line(&format!("  and {} more", named.len() - MAX_METRICS));
        }
        if !rule.unused_series.is_empty() {
            let unused = list_first(&rule.unused_series, MAX_METRICS, ", ");
            let cause = "the metric is read from other series";
            self.warning(&format!("not read, because {cause}: {unused}"));
        }
    }

    /// Warns of resources in overrides that have no metric, because no series has their label.
    fn add_resources_without_metrics(&mut self, rule: &RuleInspection) {
        let with_metric: Vec<_> =
            rule.metrics.iter().filter_map(|metric| metric.resource.as_ref()).collect();
        if with_metric.is_empty() {
            // An external rule, whose metrics have no objects.
            return;
        }
        let resources = self.servers.source.resources();
        for (label, target) in rule.definition.resources.overrides.iter() {
            let Ok(known) = resources.resolve(&target.group, &target.resource) else { continue };
            let resource = &known.group_resource;
            // The label of the namespace is checked with the sample.
            if *resource == GroupResource::namespaces() || with_metric.contains(&resource) {
                continue;
            }
            let advice = series::mapping_advice(&known.singular, &rule.labels);
            self.warning(&format!(
                "{resource} have no metric, because no series has the label `{label}`: {advice}"
            ));
        }
    }

    /// Reports `resourceRules`, and the results of their queries.
    pub(super) async fn add_resource_rules(
        &mut self,
        config: &Config,
        compiled: &RuleSet,
        objects: &ClusterObjects,
    ) {
        let Some(rules) = &config.resource_rules else { return };
        self.current_rule = ("resourceRules".to_owned(), config.positions.get("resourceRules"));
        let position = self.current_rule.1.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("resourceRules{position}"));
        self.add_file_findings("resourceRules.");
        let Some(Ok(metrics)) = &compiled.resource else { return };
        if rules.missing_rule().is_some() {
            return;
        }
        self.cluster_failures.clone_from(&objects.failures);
        let server = self.servers.server(&rules.server);
        let mut problems = Vec::new();
        let resources = resource::measured_resources();
        let queries = resources
            .iter()
            .flat_map(|kind| UsageResource::ALL.into_iter().map(move |usage| (kind, usage)));
        for (kind, usage) in queries {
            let field = resource::query_field(usage, kind);
            match resource::check_query(metrics, server, usage, kind, objects).await {
                Ok(ResultObjects { count, example, unmatched_count }) => {
                    self.line(&format!("  {field}: {kind}: {count}, such as {example}"));
                    self.cluster_failures.extend(unmatched_count.map(|read_count| {
                        format!(
                            "{kind} not compared: the cluster has more than {read_count}, and none \
                             of those is in the result of {field}"
                        )
                    }));
                }
                Err(QueryProblem::Mistake(text)) => problems.push(format!("{field}: {text}")),
                Err(QueryProblem::Unanswered(failure)) => {
                    let text = self.add_unchecked("resourceRules", &failure);
                    self.line(&format!("  {field}: {text}"));
                }
            }
        }
        for problem in &problems {
            self.problem(problem);
        }
    }
}

/// Whether a series selector has a metric name, as `up{job="a"}` does.
fn has_metric_name(selector: &str) -> bool {
    let expr = promql::parse(selector);
    expr.is_ok_and(|expr| matches!(&expr.node, Node::Selector(one) if one.metric_name().is_some()))
}

fn display_name(metric: &InspectedMetric) -> String {
    match &metric.resource {
        Some(resource) => format!("{resource}/{}", metric.metric),
        None => metric.metric.clone(),
    }
}
