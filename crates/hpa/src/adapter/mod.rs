//! `hpa adapter`.

mod discovery_log;
mod leader;
mod probes;
mod prometheus_url;
mod serving;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use hpa_adapter::{
    Adapter, AdapterOptions, Authenticator, Authorizer, AuthorizerOptions, Metrics, Server,
    TokenAuthenticator, Version,
    authentication::{FrontProxyFlags, FrontProxyNames, Lookup, TrustSettings, TrustSource},
    metrics_api::Group,
    server::ServerOptions,
};
use hpa_collectors::collection::AutoscalerGroup;
use hpa_collectors::{collection::CollectionSource, schedules::source::ScheduleSource};
use hpa_controller::k8s::{ClientConfig, ClientLimits, ClientSource, Clients, RateLimit};
use hpa_lease::LeaderTask;
use hpa_metrics::{ApiGroups, DiscoveryMapper, KubeObjects, MetricSource, ResourceMapper, Routed};
use hpa_prometheus::client::Client;
use hpa_prometheus::rules::{Compat, Config, RuleSet};
use hpa_prometheus::source::{PrometheusProvider, PrometheusSettings, RulesFile, Servers};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    args::{AdapterArguments, DEFAULT_URL, to_std},
    collectors::{self, Collectors, Scope},
    logging,
    prometheus_metrics::{RequestMetrics, query_metrics, rule_metrics},
    scaling_schedules,
    signals::cancel_on_signal,
    version,
};

/// The usual sync period of the autoscalers that read metrics.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

/// The default time for which an authorization is cached, as in kube-apiserver's webhook
/// authorizer.
const AUTHORIZED_SECONDS: i64 = 300;
/// The same in prometheus-adapter. It is shorter than the sync period, so each request of an
/// autoscaler needs a `SubjectAccessReview`.
const COMPAT_AUTHORIZED_SECONDS: i64 = 10;

/// client-go's default rate, which `--client-qps=0` means.
const CLIENT_GO_QPS: f64 = 5.0;

/// Serves until a signal.
pub(crate) fn run(arguments: AdapterArguments) -> anyhow::Result<()> {
    let threads = usize::from(arguments.threads);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    logging::start(&arguments.log)?;
    let outcome = runtime.block_on(serve(arguments));
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: AdapterArguments) -> anyhow::Result<()> {
    for flag in &arguments.ignored.names {
        warn!("the flag --{flag} has no effect");
    }
    let stop = CancellationToken::new();
    cancel_on_signal(&stop)?;
    let metrics = Arc::new(Metrics::new()?);
    let requests = Arc::new(RequestMetrics::new()?);
    metrics.register((*requests).clone())?;
    let clients = KubeClients::new(&arguments).await?;
    let mut sources = Sources::default();
    sources.add_schedules(&arguments, &clients)?;
    sources.add_collectors(&arguments, &clients, &requests, &metrics)?;
    sources.add_rules(&arguments, &clients, requests, &metrics).await?;
    let source: Arc<dyn MetricSource> = Arc::new(Routed::new(sources.metric_sources));
    let groups = served_groups(&arguments, &*source);

    let (trust_source, trust) =
        TrustSource::load(trust_settings(&arguments), clients.authentication.clone())
            .await
            .context("unable to load the CAs of client certificates")?;
    let token_lifetime = to_std(arguments.authentication.authentication_token_webhook_cache_ttl);
    let tokens = TokenAuthenticator::new(Arc::new(clients.authentication.clone()), token_lifetime);
    let authenticator = Arc::new(Authenticator::new(trust, Some(tokens)));
    let authorizer =
        Authorizer::new(Arc::new(clients.authorization.clone()), &authorizer_options(&arguments));

    let address = SocketAddr::new(arguments.serving.bind_address, arguments.serving.secure_port);
    let server = Server::bind(address).await.with_context(|| {
        format!("unable to listen on {address} (--bind-address, --secure-port)")
    })?;
    let options = AdapterOptions {
        groups,
        compat: arguments.compat.mode(),
        port: server.address().port(),
        version: version(),
    };
    let server_options = server_options(&arguments);
    let certificate = serving::load_certificate(
        &arguments.serving,
        server_options,
        &clients.lister,
        groups,
        &stop,
    )
    .await?;
    let adapter = Adapter::new(source, authenticator.clone(), authorizer, metrics, options);
    let adapter = Arc::new(adapter);

    let leader_task = (!sources.leader_tasks.is_empty()).then(|| {
        let election = leader::election(&arguments.election, clients.election.clone());
        tokio::spawn(leader::run(election, clients.lister, sources.leader_tasks, stop.clone()))
    });
    tokio::spawn(trust_source.run(authenticator, stop.clone()));
    let probes = probes::start(&arguments.serving, adapter.clone()).await?;
    let names: Vec<&str> = Group::of(groups).map(Group::name).collect();
    info!(address = %server.address(), groups = names.join(","), "serving");
    let stopping_adapter = adapter.clone();
    let on_stop = stop.clone();
    tokio::spawn(async move {
        on_stop.cancelled().await;
        stopping_adapter.set_stopping();
    });
    server.serve(adapter, certificate, server_options, stop).await;
    if let Some(probes) = probes {
        probes.stop().await;
    }
    if let Some(leader_task) = leader_task {
        // The task releases the lease before it ends.
        leader_task.await.context("the leader's task failed")?;
    }
    Ok(())
}

/// The sources of metrics that flags turn on, and the tasks that need the lease.
#[derive(Default)]
struct Sources {
    metric_sources: Vec<Arc<dyn MetricSource>>,
    leader_tasks: Vec<LeaderTask>,
}

impl Sources {
    fn add_schedules(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
    ) -> anyhow::Result<()> {
        let schedules = scaling_schedules::start(
            &arguments.schedules,
            arguments.compat.collectors(),
            clients.lister.clone(),
            Vec::new(),
            Arc::new(Timestamp::now),
            |_| {},
        )?;
        let Some(schedules) = schedules else { return Ok(()) };
        self.leader_tasks.push(scaling_schedules::status_writer(schedules.clone()));
        self.metric_sources.push(Arc::new(ScheduleSource::new(schedules)));
        Ok(())
    }

    fn add_collectors(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
        requests: &Arc<RequestMetrics>,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let flags = &arguments.collectors;
        if !flags.collectors {
            return Ok(());
        }
        let server = arguments.prometheus.server_settings(Compat::Off)?;
        let client = server.map(|server| Client::new(server, requests.clone())).transpose()?;
        let servers = collectors::prometheus_servers(flags, &arguments.prometheus, requests)?;
        let Collectors { collection, metrics: counters, .. } = collectors::start(
            flags,
            arguments.compat.collectors(),
            (client, servers),
            &clients.lister,
            Scope { groups: vec![AutoscalerGroup::Core], namespace: None },
            Arc::new(Timestamp::now),
        )?;
        metrics.register(counters)?;
        self.leader_tasks.push(collectors::problem_reporter(collection.clone()));
        self.metric_sources.push(Arc::new(CollectionSource::new(collection)));
        Ok(())
    }

    /// Adds the metrics of the rules file. The file is optional if there are other sources.
    async fn add_rules(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
        requests: Arc<RequestMetrics>,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        if arguments.config.is_none() && !self.metric_sources.is_empty() {
            return Ok(());
        }
        let client = prometheus_client(arguments, requests.clone()).await?;
        let prometheus = client.settings().url_without_credentials();
        let (file, config) = read_rules(arguments)?;
        arguments.prometheus.warn_of_relist_interval();
        check_intervals(arguments, &config)?;
        info!(
            rules = config.rules.len(),
            external_rules = config.external_rules.len(),
            resource_rules = config.resource_rules.is_some(),
            prometheus,
            "loaded the rules"
        );
        let permissions = arguments.prometheus.server_permissions();
        let servers = Servers::new(Some(client), requests).permitting(permissions);
        let provider = create_provider(arguments, config, servers, clients).await?;
        metrics.register(rule_metrics(provider.clone())?)?;
        metrics.register(query_metrics("hpa_adapter", provider.clone())?)?;
        tokio::spawn({
            let provider = provider.clone();
            async move { provider.run(file).await }
        });
        tokio::spawn(discovery_log::log_first(provider.clone()));
        self.metric_sources.push(provider);
        Ok(())
    }
}

/// Creates the client of Prometheus. Reads its certificates and tokens once, so that errors are
/// reported at the start.
async fn prometheus_client(
    arguments: &AdapterArguments,
    requests: Arc<RequestMetrics>,
) -> anyhow::Result<Client> {
    let compat = arguments.compat.mode();
    let flags = &arguments.prometheus;
    let error = "unable to construct Prometheus client";
    if flags.prometheus_auth_incluster && flags.prometheus_auth_config.is_some() {
        bail!(
            "{error}: may not use both in-cluster auth and an explicit kubeconfig at the same time"
        );
    }
    let url = prometheus_url::compatible_url(
        flags.prometheus_url.as_deref().unwrap_or(DEFAULT_URL),
        compat,
    )
    .context(error)?;
    let settings = flags.settings(&url, compat).context(error)?;
    let client = Client::new(settings, requests).context(error)?;
    client.check_files().await.context(error)?;
    Ok(client)
}

fn read_rules(arguments: &AdapterArguments) -> anyhow::Result<(Option<RulesFile>, Config)> {
    let error = "unable to load metrics discovery config";
    let Some(path) = &arguments.config else {
        bail!(
            "{error}: no metrics discovery configuration file specified (make sure to use --config)"
        );
    };
    let file = RulesFile::read(path.clone())
        .with_context(|| format!("{error}: unable to read {}", path.display()))?;
    let config =
        Config::parse(&file.text).with_context(|| format!("{error}: {}", path.display()))?;
    Ok((Some(file), config))
}

/// Fails if the maximum age of series is below the relist interval: series would disappear between
/// discoveries.
fn check_intervals(arguments: &AdapterArguments, config: &Config) -> anyhow::Result<()> {
    let flags = &arguments.prometheus;
    // prometheus-adapter checks this only if there are rules for custom metrics.
    if !config.rules.is_empty() && flags.max_age() < flags.relist_interval() {
        bail!("max age must not be less than relist interval (--metrics-max-age)");
    }
    Ok(())
}

/// Clients of the API server, by purpose.
struct KubeClients {
    lister: kube::Client,
    authentication: kube::Client,
    authorization: kube::Client,
    /// Only for the lease: renewals must not queue behind other requests.
    election: kube::Client,
}

impl KubeClients {
    async fn new(arguments: &AdapterArguments) -> anyhow::Result<Self> {
        let cluster = &arguments.cluster;
        let burst = cluster.client_burst;
        if cluster.client_qps == Some(0.0) {
            warn!("--client-qps=0 means {CLIENT_GO_QPS} requests a second, as in client-go");
        }
        // A negative rate means no limit, as in client-go.
        let qps = cluster.client_qps.filter(|qps| *qps >= 0.0);
        let qps = qps.map(|qps| if qps == 0.0 { CLIENT_GO_QPS } else { qps });
        let rate = qps.map(|qps| RateLimit { qps, burst });
        let request_timeout = to_std(arguments.authorization.request_timeout);
        let limits = ClientLimits { request_timeout, ..ClientLimits::default() };
        let default = &cluster.lister_kubeconfig;
        let client = async |path: &Option<std::path::PathBuf>, limits: ClientLimits| {
            let source = match path.as_ref().or(default.as_ref()) {
                Some(path) => ClientSource::Kubeconfig { path: Some(path.clone()), context: None },
                None => ClientSource::Infer,
            };
            let config = ClientConfig {
                source,
                api: limits,
                metrics: limits,
                user_agent: version::user_agent(),
                ..ClientConfig::default()
            };
            Clients::new(&config).await.map(|clients| clients.api)
        };
        Ok(Self {
            lister: client(default, ClientLimits { rate, ..limits }).await?,
            authentication: client(&arguments.authentication.authentication_kubeconfig, limits)
                .await?,
            election: client(default, limits).await?,
            authorization: client(&arguments.authorization.authorization_kubeconfig, limits)
                .await?,
        })
    }
}

/// Creates the source of the rules' metrics, which has no series before its first discovery.
/// Starts the watches of pods and nodes that the rules need.
async fn create_provider(
    arguments: &AdapterArguments,
    config: Config,
    servers: Servers,
    clients: &KubeClients,
) -> anyhow::Result<Arc<PrometheusProvider>> {
    let compat = arguments.compat.mode();
    let mapper = Arc::new(DiscoveryMapper(clients.lister.clone()));
    if compat == Compat::Reference {
        // prometheus-adapter doesn't start with a rule that it can't use.
        let resources = mapper.load().await.context("unable to construct RESTMapper")?;
        if let Some(rule) = RuleSet::compile(&config, &resources).first_error() {
            bail!("unable to construct the metrics provider: {rule}");
        }
    }
    let objects = KubeObjects::new(clients.lister.clone());
    let objects = Arc::new(match compat {
        Compat::Off => objects,
        Compat::Reference => objects.with_pod_lists(),
    });
    // External rules need no pods. With external rules only, the chart may not permit pod watches.
    if !config.rules.is_empty() || config.resource_rules.is_some() {
        let objects = objects.clone();
        tokio::spawn(async move { objects.watch_pods().await });
    }
    if config.resource_rules.is_some() {
        let objects = objects.clone();
        tokio::spawn(async move { objects.watch_nodes().await });
    }
    let settings = PrometheusSettings {
        sharing: arguments.sharing.settings(SYNC_PERIOD),
        ..arguments.prometheus.discovery_settings(compat)
    };
    let provider = PrometheusProvider::new(config, servers, settings, mapper, objects);
    Ok(Arc::new(provider.context("unable to use the rules")?))
}

/// The API groups that a source serves and no flag disables.
fn served_groups(arguments: &AdapterArguments, source: &dyn MetricSource) -> ApiGroups {
    let groups = source.catalog().groups();
    ApiGroups {
        custom: groups.custom && arguments.custom_metrics,
        external: groups.external && arguments.external_metrics,
        resource: groups.resource && arguments.resource_metrics,
    }
}

fn trust_settings(arguments: &AdapterArguments) -> TrustSettings {
    let flags = &arguments.authentication;
    let lookup = if flags.authentication_skip_lookup {
        Lookup::Skipped
    } else if flags.authentication_tolerate_lookup_failure {
        Lookup::Tolerated
    } else {
        Lookup::Required
    };
    let front_proxy = flags.requestheader_client_ca_file.clone().map(|ca_file| {
        let names = FrontProxyNames {
            allowed: flags.requestheader_allowed_names.clone(),
            username_headers: flags.requestheader_username_headers.clone(),
            uid_headers: flags.requestheader_uid_headers.clone(),
            group_headers: flags.requestheader_group_headers.clone(),
            extra_header_prefixes: flags.requestheader_extra_headers_prefix.clone(),
        };
        FrontProxyFlags { ca_file, names }
    });
    TrustSettings { client_ca_file: flags.client_ca_file.clone(), front_proxy, lookup }
}

fn authorizer_options(arguments: &AdapterArguments) -> AuthorizerOptions {
    let flags = &arguments.authorization;
    let default = match arguments.compat.mode() {
        Compat::Off => AUTHORIZED_SECONDS,
        Compat::Reference => COMPAT_AUTHORIZED_SECONDS,
    };
    let default = jiff::SignedDuration::from_secs(default);
    let allowed_lifetime = flags.authorization_webhook_cache_authorized_ttl.unwrap_or(default);
    AuthorizerOptions {
        always_allowed: flags.authorization_always_allow_paths.clone(),
        allowed_lifetime: to_std(allowed_lifetime),
        denied_lifetime: to_std(flags.authorization_webhook_cache_unauthorized_ttl),
    }
}

fn server_options(arguments: &AdapterArguments) -> ServerOptions {
    let streams = arguments.serving.http2_max_streams_per_connection;
    ServerOptions {
        disable_http2: arguments.serving.disable_http2,
        max_streams: (streams > 0).then_some(streams),
    }
}

fn version() -> Version {
    let build = version::build_info();
    let mut numbers = build.version.split('.');
    Version {
        major: numbers.next().unwrap_or_default().to_owned(),
        minor: numbers.next().unwrap_or_default().to_owned(),
        git_version: format!("v{}", build.version),
        git_commit: build.revision.clone(),
        build_date: build.date.clone(),
        compiler: "rustc".to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }
}
