//! The rules of prometheus-adapter. They determine the Kubernetes metrics that Prometheus has, and
//! the queries that read them. This module has pure functions, without I/O, clock or async runtime.
//! Each rule is compiled on its own: an invalid one doesn't affect the others. `tests/conformance`
//! compares the results with recorded ones of prometheus-adapter.
//!
//! ```text
//!  rules file ──► Config::parse ──► RuleSet::compile ◄── ApiResources (discovery)
//!                                        │
//!  series of each rule ──► RuleSeries ──►│
//!                                        ▼
//!                              CustomRegistry, ExternalRegistry ──► lists for discovery
//!                                        │ request
//!                                        ▼
//!                                  query (PromQL) ──► (Prometheus)
//!                                                          │ samples
//!                                  values ◄────────────────┘
//! ```
//!
//! The steps from a file to a query:
//!
//! ```rust
//! use hpa_calc::Selector;
//! use hpa_metrics::{
//!     CustomQuery, Objects,
//!     resource::{ApiResource, ApiResources, GroupResource},
//! };
//! use hpa_prometheus::rules::{
//!     Compat, Config, CustomRegistry, RuleSeries, RuleSet, Series, registry::DiscoveredRule,
//! };
//!
//! // The file. An error lists up to 100 mistakes with line and column.
//! let config = Config::parse(
//!     r#"
//! rules:
//! - seriesQuery: 'http_requests_total{namespace!="",pod!=""}'
//!   resources:
//!     overrides: {namespace: {resource: namespace}, pod: {resource: pod}}
//!   name: {matches: ^(.*)_total$, as: "${1}_per_second"}
//!   metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
//! "#,
//! )?;
//!
//! // The resources of the API, from discovery.
//! let resource = |kind: &str, plural: &str| ApiResource {
//!     group_resource: GroupResource::new("", plural),
//!     version: "v1".to_owned(),
//!     kind: kind.to_owned(),
//!     singular: kind.to_lowercase(),
//! };
//! let all = [resource("Pod", "pods"), resource("Namespace", "namespaces")];
//! let resources = ApiResources::new(all);
//!
//! // Each rule is compiled on its own. An invalid one doesn't affect the others.
//! let rules = RuleSet::compile(&config, &resources);
//! let rule = rules.custom[0].clone()?;
//!
//! // The series that `rule.series_query` selects, as `/api/v1/series` returns them.
//! let labels = ["namespace", "pod", "code"].map(str::to_owned).to_vec();
//! let seen = [Series { name: "http_requests_total".to_owned(), labels }];
//! let series = RuleSeries::new(&rule, &resources, &seen).into();
//!
//! // The metrics that the API lists.
//! let registry = CustomRegistry::new(&[DiscoveredRule { index: 0, rule, series }]);
//! let listed = registry.metrics().map(|listed| (listed.resource.to_string(), listed.metric));
//! let metric = "http_requests_per_second".to_owned();
//! let expected = ["namespaces", "pods"].map(|resource| (resource.to_owned(), metric.clone()));
//! assert_eq!(listed.collect::<Vec<_>>(), expected);
//!
//! // The query for a request. The caller has resolved its objects to names.
//! let request = CustomQuery {
//!     resource: GroupResource::pods(),
//!     namespace: "shop".to_owned(),
//!     objects: Objects::Selected(Selector::parse("app=web")?),
//!     metric,
//!     metric_selector: Selector::parse("code=200")?,
//! };
//! let names = ["web-1".to_owned(), "web-2".to_owned()];
//! assert_eq!(
//!     registry.query(&request, &names, &resources, Compat::Off)?,
//!     "sum(rate(http_requests_total{code=\"200\",namespace=\"shop\",pod=~\"web-1|web-2\"}[2m])) \
//!      by (pod)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Compatibility
//!
//! The configuration, naming, templates and regular expressions are those of prometheus-adapter,
//! with Go's syntax and messages. Some of its details are harmful, and [`Compat`] selects their
//! behavior. For example, by default NaN is not a value, and a dot in an object's name matches only
//! a dot.

pub mod config;
pub mod counter;
pub mod explain;
pub mod generate;
pub mod labels;
pub mod lint;
mod mistake;
pub mod name;
pub mod per_object;
pub mod quantile;
pub mod query;
mod regex_budget;
pub mod registry;
pub mod resource_metrics;
pub mod results;
pub mod rule;
pub mod ruleset;
pub mod series;
mod string_table;
pub mod value;

pub use config::{Config, ConfigError};
pub use hpa_go_compat::Compat;
pub use per_object::NotPerObject;
pub use registry::{CustomRegistry, ExternalRegistry};
pub use rule::Rule;
pub use ruleset::RuleSet;
pub use series::{RuleSeries, Series};
