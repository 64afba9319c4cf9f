//! `hpa shadow-report`: compares decisions with those of an active controller, and writes nothing.

use std::{process::ExitCode, sync::Arc, time::Instant};

use anyhow::{Context, bail};
use hpa_calc::{HorizontalPodAutoscaler, explain::counted};
use hpa_controller::{
    Dependencies, Telemetry, TelemetryOptions,
    k8s::{ClientConfig, Clients},
    scale_target::{ScaleUnavailable, TargetReader},
    shadow::Summary,
};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    EXIT_INCONCLUSIVE,
    api_client::client_config,
    args::{AutoscalingArguments, ClusterArguments, ShadowReportArguments, to_std},
    controller_options::shared_options,
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseKey},
    kubectl, logging, signals, terminal,
};

/// Compares decisions for the time of `--for` or until a signal, then prints the report. The exit
/// status is 1 with differences, and 2 if the comparison failed, could not have found a difference,
/// or found only scalings of the peer that differ and don't count.
pub(crate) fn report(arguments: &ShadowReportArguments) -> anyhow::Result<ExitCode> {
    logging::start(&arguments.log)?;
    if let Some(warning) = short_comparison_warning(arguments) {
        warn!("{warning}");
    }
    let (summary, length) = kubectl::block_on_threads(None, compare(arguments))?;
    let flags = describe_flags(&arguments.autoscaling);
    terminal::print(&format!("{}\n{flags}\n{summary}", headline(&summary, length)))?;
    let is_uncertain = summary.different_count == 0 && summary.uncounted_scaling_count() > 0;
    if is_uncertain || inconclusive_reason(&summary).is_some() {
        return Ok(ExitCode::from(EXIT_INCONCLUSIVE));
    }
    match summary.different_count {
        0 => return Ok(ExitCode::SUCCESS),
        1 => terminal::warn("1 decision differs"),
        different => terminal::warn(format!("{different} decisions differ")),
    }
    Ok(ExitCode::FAILURE)
}

/// A warning if the comparison ends before a difference can count.
fn short_comparison_warning(arguments: &ShadowReportArguments) -> Option<String> {
    let window = arguments.autoscaling.horizontal_pod_autoscaler_downscale_stabilization;
    let period = arguments.autoscaling.horizontal_pod_autoscaler_sync_period;
    // The first decision takes up to a period. A mismatch counts only after several comparisons in
    // a row (docs/shadow-mode.md), one in each period.
    let min_length = window.saturating_add(period.saturating_mul(6));
    (arguments.duration < min_length).then(|| {
        format!(
            "--for {:#} may be too short: differences count only after the stabilization window \
             ({window:#} by default). Use at least --for {}s",
            arguments.duration,
            min_length.as_secs()
        )
    })
}

/// A sentence with the flags of this command's decisions that explain most differences.
fn describe_flags(flags: &AutoscalingArguments) -> String {
    format!(
        "The decisions here are those with --horizontal-pod-autoscaler-tolerance={} and \
         --horizontal-pod-autoscaler-downscale-stabilization={:#}: if the peer has other flags, \
         pass them.",
        flags.horizontal_pod_autoscaler_tolerance,
        flags.horizontal_pod_autoscaler_downscale_stabilization
    )
}

/// The result in one line.
fn headline(summary: &Summary, length: SignedDuration) -> String {
    let Summary {
        compared_autoscaler_count: compared,
        comparison_count,
        different_count: different,
        unsettled_count: unsettled,
        differing_autoscalers,
        ..
    } = summary;
    let autoscalers = counted(*compared, "autoscaler");
    let counted_decisions = counted(*comparison_count, "decision");
    let uncounted = match *unsettled {
        0 => String::new(),
        1 => "; 1 decision differed, but isn't counted".to_owned(),
        _ => format!("; {unsettled} decisions differed, but aren't counted"),
    };
    let uncounted = match summary.uncounted_scaling_count() {
        0 => uncounted,
        scalings => format!("{uncounted} ({} of the peer)", counted(scalings, "scaling")),
    };
    match inconclusive_reason(summary) {
        Some(reason) if *comparison_count == 0 => format!("nothing was compared: {reason}"),
        Some(reason) => {
            format!("{autoscalers} compared for {length:#}: no difference could be found: {reason}")
        }
        None if *different == 0 && !summary.inconclusive_autoscalers.is_empty() => {
            let inconclusive = summary.inconclusive_autoscalers.len();
            format!(
                "{autoscalers} compared for {length:#}: no difference in {} of them; \
                 {inconclusive} could not show one{uncounted}",
                compared.saturating_sub(inconclusive)
            )
        }
        None if *different == 0 => {
            let same = counted(comparison_count.saturating_sub(*unsettled), "decision");
            format!("{autoscalers} compared for {length:#}: no difference in {same}{uncounted}")
        }
        None => {
            let verb = if differing_autoscalers.len() == 1 { "differs" } else { "differ" };
            format!(
                "{} of {autoscalers} {verb}, in {different} of {counted_decisions}, compared for \
                 {length:#}",
                differing_autoscalers.len()
            )
        }
    }
}

/// The reason why the comparison could not find a difference. `None` if it could.
fn inconclusive_reason(summary: &Summary) -> Option<String> {
    if summary.is_conclusive() {
        return None;
    }
    Some(match summary {
        Summary { autoscaler_count: 0, .. } => "there are no autoscalers".to_owned(),
        Summary { peer_is_active: false, .. } if !summary.peer_is_quiet() => {
            "--for is too short: the peer wrote its last status shortly before the start".to_owned()
        }
        Summary { peer_is_active: false, peer_lease_holder: Some(_), .. } => {
            "the peer holds its lease, but wrote no status. Compare while the load changes"
                .to_owned()
        }
        Summary { peer_is_active: false, .. } => {
            "the peer wrote no status. Check that it runs, or compare while the load changes"
                .to_owned()
        }
        Summary { comparison_count: 0, .. } => {
            "no decision was due yet; use a longer --for".to_owned()
        }
        Summary { longest_window, .. } => {
            format!(
                "--for is shorter than the stabilization windows and policy periods (up to \
                 {longest_window:#})"
            )
        }
    })
}

/// Adds the impersonation flags to the configuration of the clients.
fn client_config_with_impersonation(arguments: &ShadowReportArguments) -> ClientConfig {
    let overrides = arguments.impersonation.overrides();
    ClientConfig { overrides, ..client_config(&arguments.cluster) }
}

/// Compares decisions. Also returns the length of the comparison, which a signal can shorten.
async fn compare(arguments: &ShadowReportArguments) -> anyhow::Result<(Summary, SignedDuration)> {
    let shutdown = CancellationToken::new();
    signals::cancel_on_signal(&shutdown)?;
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions::default()));
    let clients =
        Clients::with_observer(&client_config_with_impersonation(arguments), telemetry.clone())
            .await?;
    let client = clients.api.clone();
    check_reads(&client, &arguments.cluster).await.context("nothing was compared")?;
    let options = shared_options(&arguments.autoscaling, &arguments.cluster);
    let apis = arguments.cluster.autoscaler_api.apis();
    let defaults = Dependencies::with_telemetry(clients, &options, telemetry.clone(), true, None);
    let dependencies = Dependencies { apis, ..defaults };
    let length = to_std(arguments.duration);
    info!(?length, "comparing decisions, writing nothing");
    let start = Instant::now();
    let controller = hpa_controller::run(dependencies, options, shutdown.clone());
    tokio::pin!(controller);
    tokio::select! {
        outcome = &mut controller => outcome?,
        () = tokio::time::sleep(length) => {
            let readiness = telemetry.ready();
            shutdown.cancel();
            controller.await?;
            if let Err(error) = readiness {
                let cause = check_reads(&client, &arguments.cluster).await.err();
                let cause = cause.map(|cause| format!(": {cause:#}")).unwrap_or_default();
                bail!("nothing was compared: {error}{cause}");
            }
        }
    }
    let elapsed = SignedDuration::try_from(start.elapsed())?;
    let is_complete = elapsed >= arguments.duration;
    let elapsed = SignedDuration::from_secs(elapsed.as_secs());
    let length = if is_complete { arguments.duration } else { elapsed };
    let mut summary = telemetry.shadow_summary(Timestamp::now());
    summary.peer_lease_holder = read_peer_lease_holder(&client, &summary).await;
    Ok((summary, length))
}

/// The host that holds the lease of the peer that wrote a status last. `None` if that peer has no
/// lease, or if the lease is not held or can't be read.
async fn read_peer_lease_holder(client: &Client, summary: &Summary) -> Option<String> {
    let (write, _) = summary.last_peer_write.as_ref()?;
    let lease = match write.manager.as_str() {
        KUBE_CONTROLLER_MANAGER => LeaseKey::built_in(),
        manager => LeaseKey::of_manager(manager)?,
    };
    let holder = LeaseHolder::read(client, &lease).await.ok()?;
    (!holder.is_expired()).then(|| holder.host_name().to_owned())
}

/// Fails if autoscalers or pods can't be listed, or if the user may not read pod metrics or scales.
/// Reads the first object of each list, and the scales of these autoscalers' targets.
async fn check_reads(client: &Client, cluster: &ClusterArguments) -> anyhow::Result<()> {
    let in_namespace = |name: &String| format!("namespaces/{}/", kubectl::escape(name));
    let mut scopes: Vec<String> = cluster.namespaces.iter().map(in_namespace).collect();
    if scopes.is_empty() {
        scopes.push(String::new());
    }
    let list = async |api: &str, scope: &str, resource: &str, objects: &str| {
        let path = format!("/{api}/{scope}{resource}?limit=1");
        let page = kubectl::list_first_page(client, &path).await;
        page.with_context(|| format!("{objects} can't be listed"))
    };
    let mut autoscalers = Vec::new();
    for api in cluster.autoscaler_api.apis() {
        for scope in &scopes {
            let api = format!("apis/{api}");
            autoscalers
                .extend(list(&api, scope, hpa_calc::crd::PLURAL, hpa_calc::crd::PLURAL).await?);
        }
    }
    if autoscalers.is_empty() {
        for namespace in &cluster.namespaces {
            kubectl::require_namespace(client, Some(namespace)).await?;
        }
    }
    for scope in &scopes {
        list("api/v1", scope, "pods", "pods").await?;
        // Only a missing permission counts. Other errors of this API don't matter to autoscalers
        // whose metrics come from another API.
        let api = "apis/metrics.k8s.io/v1beta1";
        match list(api, scope, "pods", "metrics of pods").await {
            Err(error) if kubectl::is_forbidden(&error) => return Err(error),
            _ => {}
        }
    }
    check_scales(client, cluster, autoscalers).await
}

/// Fails if the user may not read the scales of these autoscalers' targets.
async fn check_scales(
    client: &Client,
    cluster: &ClusterArguments,
    autoscalers: Vec<Value>,
) -> anyhow::Result<()> {
    let targets = TargetReader::new(client, to_std(cluster.request_timeout));
    for autoscaler in autoscalers {
        let Ok(hpa) = serde_json::from_value::<HorizontalPodAutoscaler>(autoscaler) else {
            continue;
        };
        let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        if let Err(ScaleUnavailable { error, is_forbidden: true, .. }) = targets.scale(&hpa).await {
            bail!(
                "the scale of {} {namespace}/{} can't be read: {error}",
                target.kind,
                target.name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hpa_controller::{
        HpaKey,
        k8s::{KubeconfigOverrides, StatusWrite},
        shadow::{DifferingAutoscaler, ReportedDifference, UncountedScalings},
    };
    use rstest::rstest;

    use super::*;
    use crate::args::{Arguments, Command};

    /// Twelve of 13 autoscalers, compared with an active peer.
    fn summary() -> Summary {
        Summary {
            autoscaler_count: 13,
            compared_autoscaler_count: 12,
            comparison_count: 480,
            conclusive_comparison_count: 470,
            peer_is_active: true,
            longest_window: SignedDuration::from_mins(5),
            ..Summary::default()
        }
    }

    fn summary_with_differences(autoscalers: usize, decisions: u64) -> Summary {
        let differing = DifferingAutoscaler {
            key: HpaKey::new("shop", "web"),
            comparison_count: 40,
            different_count: decisions,
            last: ReportedDifference::default(),
        };
        let differing_autoscalers = vec![differing; autoscalers];
        Summary { different_count: decisions, differing_autoscalers, ..summary() }
    }

    fn summary_with_uncounted_scalings(scaling_count: u64) -> Summary {
        let scalings = UncountedScalings {
            key: HpaKey::new("shop", "web"),
            scaling_count,
            last: ReportedDifference::default(),
        };
        Summary { uncounted_scalings: vec![scalings], ..summary() }
    }

    #[test]
    fn cluster_is_read_with_the_impersonated_identity() {
        let words = ["hpa", "shadow-report", "--as", "ann", "--as-group=ops", "--as-group=dev"];
        let Command::ShadowReport(arguments) = Arguments::parse_from(words).command else {
            panic!("another command");
        };
        let KubeconfigOverrides { impersonate, impersonate_groups, .. } =
            client_config_with_impersonation(&arguments).overrides;
        assert_eq!(impersonate.as_deref(), Some("ann"));
        assert_eq!(impersonate_groups, ["ops", "dev"]);
    }

    #[test]
    fn tolerance_of_the_decisions_is_named() {
        let words = ["hpa", "shadow-report", "--horizontal-pod-autoscaler-tolerance=0.25"];
        let Command::ShadowReport(arguments) = Arguments::parse_from(words).command else {
            panic!("another command");
        };
        let flags = describe_flags(&arguments.autoscaling);
        assert!(flags.contains("-tolerance=0.25 and ") && flags.contains("=5m: "), "{flags}");
    }

    #[rstest]
    #[case::same(summary(), "12 autoscalers compared for 10m: no difference in 480 decisions")]
    #[case::uncounted_differences(
        Summary { unsettled_count: 4, ..summary() },
        "12 autoscalers compared for 10m: no difference in 476 decisions; 4 decisions differed, \
         but aren't counted")]
    #[case::one(
        Summary { compared_autoscaler_count: 1, comparison_count: 1, ..summary() },
        "1 autoscaler compared for 10m: no difference in 1 decision")]
    #[case::some_inconclusive(
        Summary { inconclusive_autoscalers: vec![HpaKey::new("shop", "web"); 2], ..summary() },
        "12 autoscalers compared for 10m: no difference in 10 of them; 2 could not show one")]
    #[case::some_inconclusive_and_uncounted(
        Summary {
            inconclusive_autoscalers: vec![HpaKey::new("shop", "web"); 2],
            unsettled_count: 4,
            ..summary()
        },
        "12 autoscalers compared for 10m: no difference in 10 of them; 2 could not show one; 4 \
         decisions differed, but aren't counted")]
    #[case::uncounted_scalings(
        Summary { unsettled_count: 4, ..summary_with_uncounted_scalings(3) },
        "12 autoscalers compared for 10m: no difference in 476 decisions; 4 decisions differed, \
         but aren't counted (3 scalings of the peer)")]
    #[case::uncounted_scaling(
        Summary { unsettled_count: 1, ..summary_with_uncounted_scalings(1) },
        "12 autoscalers compared for 10m: no difference in 479 decisions; 1 decision differed, \
         but isn't counted (1 scaling of the peer)")]
    #[case::different(
        summary_with_differences(2, 7),
        "2 of 12 autoscalers differ, in 7 of 480 decisions, compared for 10m"
    )]
    #[case::one_different(
        summary_with_differences(1, 7),
        "1 of 12 autoscalers differs, in 7 of 480 decisions, compared for 10m"
    )]
    #[case::no_autoscalers(Summary::default(), "nothing was compared: there are no autoscalers")]
    #[case::no_decisions(
        Summary { comparison_count: 0, conclusive_comparison_count: 0, ..summary() },
        "nothing was compared: no decision was due yet; use a longer --for")]
    #[case::inactive_peer(
        Summary { peer_is_active: false, ..summary() },
        "12 autoscalers compared for 10m: no difference could be found: the peer wrote no status. \
         Check that it runs, or compare while the load changes")]
    #[case::idle_peer(
        Summary {
            peer_is_active: false,
            peer_lease_holder: Some("cp-1".to_owned()),
            ..summary()
        },
        "12 autoscalers compared for 10m: no difference could be found: the peer holds its lease, \
         but wrote no status. Compare while the load changes")]
    #[case::peer_wrote_before_a_short_comparison(
        Summary {
            peer_is_active: false,
            last_peer_write: Some((
                StatusWrite { manager: "k3s".into(), at: Timestamp::UNIX_EPOCH },
                SignedDuration::ZERO,
            )),
            ..summary()
        },
        "12 autoscalers compared for 10m: no difference could be found: --for is too short: the \
         peer wrote its last status shortly before the start")]
    #[case::too_short(
        Summary { conclusive_comparison_count: 0, ..summary() },
        "12 autoscalers compared for 10m: no difference could be found: --for is shorter than the \
         stabilization windows and policy periods (up to 5m)")]
    fn headline_counts_differences_or_says_why_none_could_be_found(
        #[case] summary: Summary,
        #[case] expected: &str,
    ) {
        assert_eq!(headline(&summary, SignedDuration::from_mins(10)), expected);
    }
}
