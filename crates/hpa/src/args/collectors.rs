use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

use anyhow::ensure;
use clap::Args;
use hpa_collectors::{
    Compat, Credential, Environment, Limits, Policy, ServiceSettings, Settings,
    collection::CollectionSettings, registry::COLLECTORS,
};
use hpa_prometheus::client::Client;
use jiff::SignedDuration;

use super::values::{BOOL, HPA_PREFIX, positive_duration, to_std};

/// The collectors that are on, their servers and limits.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Collectors (as in kube-metrics-adapter)")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct CollectorArguments {
    /// Collect metrics that annotations metric-config.* configure. They come from pods, from HTTP
    /// endpoints, and from queries to --prometheus-url
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) collectors: bool,
    /// Time for which a value is used before it is collected again, for metrics that set no
    /// interval
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "60s",
        value_parser = positive_duration)]
    pub(crate) default_collection_interval: SignedDuration,
    /// Maximum age of a value while collecting it again fails [default: two intervals of the
    /// metric]
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) metrics_ttl: Option<SignedDuration>,
    /// Host that annotations may name: a host name, or *.DOMAIN for all names below a domain; can
    /// be repeated [default: all hosts]
    #[arg(long = "collector-host", env = HPA_PREFIX, value_name = "NAME", value_delimiter = ',')]
    pub(crate) collector_hosts: Vec<String>,
    /// Loopback, link-local or metadata address that collectors may nevertheless connect to; can be
    /// repeated
    #[arg(long = "collector-address", env = HPA_PREFIX, value_name = "ADDRESS",
        value_delimiter = ',')]
    pub(crate) collector_addresses: Vec<IpAddr>,
    /// File with the bearer token for an origin, as in
    /// `https://metrics.example.org=/etc/hpa/credentials/metrics`; can be repeated. The annotations
    /// of all tenants can use it
    #[arg(long = "collector-credential", env = HPA_PREFIX, value_name = "ORIGIN=FILE",
        value_delimiter = ',', value_parser = name_and_value)]
    pub(crate) collector_credentials: Vec<(String, String)>,
    /// Label that has the namespace of a series, such as `namespace`. Queries in annotations then
    /// read only series of the autoscaler's namespace from --prometheus-url and
    /// --additional-prometheus-server. Annotations can't name the URLs of these servers. They can
    /// name URLs of other Prometheus servers only if --collector-host is set
    #[arg(long, env = HPA_PREFIX, value_name = "LABEL", value_parser = label)]
    pub(crate) collector_namespace_label: Option<String>,
    /// Namespace that may read from a server, SERVER=NAMESPACE; can be repeated. The server is
    /// prometheus, an alias, influxdb, sqs, zmon, nakadi, pods, or url for all URLs that
    /// annotations name. Annotations in other namespaces can't reach the server by its URL either
    /// [default: all namespaces]
    #[arg(long = "collector-permission", env = HPA_PREFIX, value_name = "SERVER=NAMESPACE",
        value_delimiter = ',', value_parser = name_and_value)]
    pub(crate) collector_permissions: Vec<(String, String)>,
    /// PEM file with additional CAs for HTTPS to pods and endpoints
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) collector_ca_file: Option<PathBuf>,
    /// Concurrent connections of all collectors together, except those to Prometheus
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", default_value_t = 128,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) collector_connections: u16,
    /// Concurrent collections of each collector
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) collector_concurrency: u16,
    /// Collect requests per second of Ingresses from the metrics of skipper
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) skipper_ingress_metrics: bool,
    /// Collect requests per second of RouteGroups from the metrics of skipper
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) skipper_routegroup_metrics: bool,
    /// Annotation of an Ingress with the weights of its backends; can be repeated
    #[arg(long = "skipper-backends-annotation", env = HPA_PREFIX, value_name = "NAME",
        value_delimiter = ',')]
    pub(crate) skipper_backends_annotations: Vec<String>,
    /// Collect requests per second of host names (type: requests-per-second)
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) external_rps_metrics: bool,
    /// Name of the series with requests per second
    #[arg(long, env = HPA_PREFIX, value_name = "NAME",
        default_value = "skipper_serve_host_duration_seconds_count")]
    pub(crate) external_rps_metric_name: String,
    /// Prometheus server that annotations may name by its alias, NAME=URL; can be repeated
    #[arg(long = "additional-prometheus-server", env = HPA_PREFIX, value_name = "NAME=URL",
        value_delimiter = ',', value_parser = alias_and_url)]
    pub(crate) additional_prometheus_servers: Vec<(String, String)>,
    /// File with the bearer token for an additional Prometheus server, NAME=FILE; can be repeated
    #[arg(long = "additional-prometheus-server-token-file", env = HPA_PREFIX,
        value_name = "NAME=FILE", value_delimiter = ',', value_parser = name_and_value)]
    pub(crate) additional_prometheus_server_token_files: Vec<(String, String)>,
    /// URL of the server for metrics of the type influxdb
    #[arg(long, env = HPA_PREFIX, value_name = "URL")]
    pub(crate) influxdb_address: Option<String>,
    /// File with the token for --influxdb-address
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) influxdb_token_file: Option<PathBuf>,
    /// InfluxDB organization
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", default_value = "")]
    pub(crate) influxdb_org: String,
    /// Collect the lengths of Amazon SQS queues, with the credentials of this pod
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) aws_external_metrics: bool,
    /// AWS region of the queues; can be repeated
    #[arg(long = "aws-region", env = HPA_PREFIX, value_name = "REGION", value_delimiter = ',')]
    pub(crate) aws_regions: Vec<String>,
    /// URL of ZMON's data service, for metrics of the type zmon
    #[arg(long, env = HPA_PREFIX, value_name = "URL")]
    pub(crate) zmon_kariosdb_endpoint: Option<String>,
    /// Name of ZMON's token in --credentials-dir
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", default_value = "zmon")]
    pub(crate) zmon_token_name: String,
    /// URL of the server for metrics of the type nakadi
    #[arg(long, env = HPA_PREFIX, value_name = "URL")]
    pub(crate) nakadi_endpoint: Option<String>,
    /// Name of Nakadi's token in --credentials-dir
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", default_value = "nakadi")]
    pub(crate) nakadi_token_name: String,
    /// Directory with the tokens of ZMON and Nakadi, in files NAME-token-secret
    #[arg(long, env = HPA_PREFIX, value_name = "DIRECTORY", default_value = "/meta/credentials")]
    pub(crate) credentials_dir: PathBuf,
}

fn label(text: &str) -> Result<String, String> {
    let is_label = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    if is_label { Ok(text.to_owned()) } else { Err("must be a label name".to_owned()) }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    if name.is_empty() || value.is_empty() {
        return Err("must be NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The servers that `--collector-permission` can name, besides the aliases of
/// `--additional-prometheus-server`. `url` stands for all URLs that annotations name.
const SERVERS: [&str; 7] = ["prometheus", "influxdb", "sqs", "zmon", "nakadi", "pods", "url"];

/// Parses NAME=URL. Refuses the names in [`SERVERS`].
fn alias_and_url(text: &str) -> Result<(String, String), String> {
    let (name, url) = name_and_value(text)?;
    if SERVERS.contains(&&*name) {
        return Err(format!("{name} is the name of another server"));
    }
    Ok((name, url))
}

/// A collector, the name of one of its own flags without dashes, and whether the flag is given.
type OwnFlag = (&'static str, &'static str, fn(&CollectorArguments) -> bool);

/// The flags that turn on a collector, in addition to `--collectors`. One of a collector's own
/// flags suffices. `--collectors` alone turns on each collector that has none.
const OWN_FLAGS: &[OwnFlag] = &[
    ("skipper", "skipper-ingress-metrics", |flags| flags.skipper_ingress_metrics),
    ("skipper", "skipper-routegroup-metrics", |flags| flags.skipper_routegroup_metrics),
    ("external-rps", "external-rps-metrics", |flags| flags.external_rps_metrics),
    ("prometheus", "additional-prometheus-server", |flags| {
        !flags.additional_prometheus_servers.is_empty()
    }),
    ("influxdb", "influxdb-address", |flags| flags.influxdb_address.is_some()),
    ("sqs", "aws-external-metrics", |flags| flags.aws_external_metrics),
    ("zmon", "zmon-kariosdb-endpoint", |flags| flags.zmon_kariosdb_endpoint.is_some()),
    ("nakadi", "nakadi-endpoint", |flags| flags.nakadi_endpoint.is_some()),
    // `--scaling-schedule` is in `ScalingScheduleArguments`, and needs no `--collectors`.
    ("schedule", "scaling-schedule", |_| false),
];

fn own_flags(collector: &str) -> impl Iterator<Item = &'static OwnFlag> {
    OWN_FLAGS.iter().filter(move |(of, ..)| *of == collector)
}

/// Names the collector's own flags: `--a or --b`.
fn describe_own_flags(collector: &str) -> String {
    let names: Vec<_> = own_flags(collector).map(|(_, name, _)| format!("--{name}")).collect();
    names.join(" or ")
}

/// Whether a collector needs `--prometheus-url`.
enum PrometheusUrl {
    Unused,
    /// It turns the collector on without the collector's own flags.
    Sufficient,
    /// The collector needs it and one of its own flags.
    Required,
}

impl PrometheusUrl {
    fn of(collector: &str) -> Self {
        match collector {
            "prometheus" => Self::Sufficient,
            "skipper" | "external-rps" => Self::Required,
            _ => Self::Unused,
        }
    }
}

impl CollectorArguments {
    /// The settings of the collection. `has_prometheus`: whether --prometheus-url is set.
    pub(crate) fn collection_settings(
        &self,
        compat: Compat,
        has_prometheus: bool,
    ) -> CollectionSettings {
        let aliases = self.additional_prometheus_servers.iter().map(|(name, _)| name.clone());
        let interval = self.default_collection_interval.as_nanos();
        let environment = Environment {
            prometheus_aliases: aliases.collect(),
            sqs_regions: self.aws_regions.iter().cloned().collect(),
            external_rps_metric: self.external_rps_metric_name.clone(),
            default_interval_nanos: i64::try_from(interval).unwrap_or(i64::MAX),
            permissions: self.permissions(),
            compat,
            ..Environment::default()
        };
        let names = COLLECTORS.iter().map(|collector| collector.name);
        CollectionSettings {
            environment,
            collectors: names.filter(|name| self.is_on(name, has_prometheus)).collect(),
            max_age: self.metrics_ttl.map(to_std),
            concurrency: usize::from(self.collector_concurrency),
        }
    }

    /// Whether one of the collector's own flags is given.
    fn has_own_flag(&self, collector: &str) -> bool {
        own_flags(collector).any(|(.., is_given)| is_given(self))
    }

    /// Whether `--collectors` turns a collector on.
    fn is_on(&self, collector: &str, has_prometheus: bool) -> bool {
        let has_own_flag = self.has_own_flag(collector);
        match PrometheusUrl::of(collector) {
            PrometheusUrl::Unused => has_own_flag || own_flags(collector).next().is_none(),
            PrometheusUrl::Sufficient => has_prometheus || has_own_flag,
            PrometheusUrl::Required => has_prometheus && has_own_flag,
        }
    }

    /// Fails if `--collector-permission` names a server that doesn't exist: the server that was
    /// meant would be open to all namespaces.
    pub(crate) fn check_permissions(&self) -> anyhow::Result<()> {
        let aliases = self.additional_prometheus_servers.iter().map(|(name, _)| name.as_str());
        let servers: Vec<&str> = SERVERS.into_iter().chain(aliases).collect();
        for (server, _) in &self.collector_permissions {
            let is_known = servers.contains(&server.as_str());
            ensure!(is_known, "--collector-permission: there is no server {server}");
        }
        Ok(())
    }

    /// The permitted namespaces by the server's name.
    fn permissions(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut permissions = BTreeMap::<_, BTreeSet<_>>::new();
        for (server, namespace) in &self.collector_permissions {
            permissions.entry(server.clone()).or_default().insert(namespace.clone());
        }
        permissions
    }

    /// Returns the flags that a collector requires in addition to `--collectors`. If it requires
    /// none, returns `--collectors`. The collector `schedule` requires only its own flag.
    pub(crate) fn flags_that_enable(collector: &str) -> String {
        let own = describe_own_flags(collector);
        match PrometheusUrl::of(collector) {
            PrometheusUrl::Unused if own.is_empty() => "--collectors".to_owned(),
            PrometheusUrl::Unused => own,
            PrometheusUrl::Sufficient => format!("--prometheus-url or {own}"),
            PrometheusUrl::Required if own.contains(" or ") => {
                format!("--prometheus-url, and {own}")
            }
            PrometheusUrl::Required => format!("--prometheus-url and {own}"),
        }
    }

    /// The end of advice to set `--collectors` for a collector: the other flags that it requires,
    /// such as `, with --influxdb-address`. Empty if it requires none.
    pub(crate) fn describe_further_flags(collector: &str) -> String {
        match Self::flags_that_enable(collector).as_str() {
            "--collectors" => String::new(),
            others => format!(", with {others}"),
        }
    }

    /// The flags of [`Self::flags_that_enable`] that each collector lacks if it is off, by the name
    /// of the collector. `has_prometheus`: whether --prometheus-url is set.
    pub(crate) fn missing_flags(&self, has_prometheus: bool) -> BTreeMap<&'static str, String> {
        let names = COLLECTORS.iter().map(|collector| collector.name);
        names.map(|name| (name, self.missing_flags_of(name, has_prometheus))).collect()
    }

    fn missing_flags_of(&self, collector: &str, has_prometheus: bool) -> String {
        match PrometheusUrl::of(collector) {
            PrometheusUrl::Required if has_prometheus => describe_own_flags(collector),
            PrometheusUrl::Required if self.has_own_flag(collector) => {
                "--prometheus-url".to_owned()
            }
            _ => Self::flags_that_enable(collector),
        }
    }

    /// A sentence for each given flag that turns on no collector because another flag is missing.
    /// `has_prometheus`: whether --prometheus-url is set.
    pub(crate) fn ineffective_flags(&self, has_prometheus: bool) -> Vec<String> {
        let given = OWN_FLAGS.iter().filter(|(.., is_given)| is_given(self));
        let ineffective = given.filter_map(|(collector, flag, _)| {
            let missing = match PrometheusUrl::of(collector) {
                _ if !self.collectors => "--collectors",
                PrometheusUrl::Required if !has_prometheus => "--prometheus-url",
                _ => return None,
            };
            Some(format!("--{flag} has no effect without {missing}"))
        });
        ineffective.collect()
    }

    /// The settings of the clients with which collectors read. `prometheus` is the client of
    /// `--prometheus-url`, and `prometheus_servers` has a client for each alias.
    pub(crate) fn client_settings(
        &self,
        compat: Compat,
        prometheus: Option<Client>,
        prometheus_servers: BTreeMap<String, Client>,
    ) -> Settings {
        let token = |name: &str| {
            let path = self.credentials_dir.join(format!("{name}-token-secret"));
            path.exists().then_some(Credential::File(path))
        };
        let service = |name, endpoint: &Option<String>, token, org: &str| {
            let endpoint = endpoint.clone()?;
            Some((name, ServiceSettings { endpoint, token, org: org.to_owned() }))
        };
        let influxdb_token = self.influxdb_token_file.clone().map(Credential::File);
        let services = [
            service("influxdb", &self.influxdb_address, influxdb_token, &self.influxdb_org),
            service("zmon", &self.zmon_kariosdb_endpoint, token(&self.zmon_token_name), ""),
            service("nakadi", &self.nakadi_endpoint, token(&self.nakadi_token_name), ""),
        ];
        let credentials = self.collector_credentials.iter();
        let connections = usize::from(self.collector_connections);
        let limits = Limits::default();
        Settings {
            compat,
            policy: Policy {
                hosts: self.collector_hosts.clone(),
                addresses: self.collector_addresses.clone(),
            },
            limits: Limits {
                connections,
                connections_per_collection: limits.connections_per_collection.min(connections),
                ..limits
            },
            ca_file: self.collector_ca_file.clone(),
            namespace_label: self.collector_namespace_label.clone(),
            permissions: self.permissions(),
            credentials: credentials
                .map(|(origin, path)| (origin.clone(), Credential::File(path.into())))
                .collect(),
            weight_annotations: self.skipper_backends_annotations.clone(),
            prometheus,
            prometheus_servers,
            services: services.into_iter().flatten().collect(),
        }
    }
}
