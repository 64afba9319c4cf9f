//! Runs the commands of docs/migration.md against a cluster with the built-in controller: both ways
//! of migration, and back.

mod guide;
mod release;
mod user;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DynamicObject;

use self::guide::Part::{Back, Check, Steps};
use self::release::{NAME, NAMESPACE, Release};
use self::user::User;
use super::coexistence::CUSTOM_KIND;
use super::cpu_metric;
use crate::metrics::Load;
use crate::test_env::{Target, TestEnv, WAIT_LIMIT};
use crate::wait;

const CRD: &str = "horizontalpodautoscalers.autoscaling.hpa-rs.dev";

struct Migration {
    env: TestEnv,
    web: Target,
}

/// The commands of the guide that need no pods succeed, and after each switch the new controller
/// scales.
pub(super) async fn migration_guide(env: TestEnv) -> Result<()> {
    let skipped = |reason: &str| println!("  migration_guide: skipped, {reason}");
    if !hpa_tests::harness::are_long_tests_enabled() {
        skipped("it takes a minute (HPA_LONG_TESTS=1 runs it)");
        return Ok(());
    }
    let access = env.plane.admin_access()?;
    let Some(mut user) = User::new(&env, &access.kubectl, &access.kubeconfig)? else {
        skipped("there is no kubectl or no helm");
        return Ok(());
    };
    let Some(built_in) = env.plane.start_reference()? else {
        skipped("there is no built-in controller");
        return Ok(());
    };
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 2).await?;
    let migration = Migration { env, web };

    // The built-in controller scales while shadow mode compares.
    let shadow_report = user.follow("1. Run in shadow mode", Steps);
    tokio::try_join!(shadow_report, migration.scale_by_load(4))?;
    let shadow = migration.start_release().await?;
    user.follow("2. Record the current state", Steps).await?;
    drop(built_in);
    shadow.stop().await?;
    user.follow("4. Switch hpa-rs on", Steps).await?;
    let release = migration.start_release().await?;
    migration.wait_for_lease().await?;
    migration.scale_by_load(6).await?;
    migration.scale_by_load(4).await?;
    user.follow("4. Switch hpa-rs on", Check).await?;
    user.follow("4. Switch hpa-rs on", Back).await?;
    release.stop().await?;
    let built_in = migration.env.plane.start_reference()?;
    migration.scale_by_load(2).await?;
    user.run_inline("helm uninstall hpa-controller --namespace autoscaling").await?;

    migration.follow_managed_control_plane(&mut user).await?;
    drop(built_in);
    user.check_guide_is_complete()
}

impl Migration {
    /// The second half of the guide. The built-in controller is running throughout.
    async fn follow_managed_control_plane(&self, user: &mut User) -> Result<()> {
        user.follow("1. Install hpa-rs", Steps).await?;
        let release = self.start_release().await?;
        user.follow("2. Move one autoscaler", Steps).await?;
        self.wait_for_active_autoscaler().await?;
        self.scale_by_load(4).await?;
        user.follow("2. Move one autoscaler", Back).await?;
        self.scale_by_load(6).await?;

        user.follow("2. Move one autoscaler", Steps).await?;
        self.wait_for_active_autoscaler().await?;
        let restore = "kubectl -n shop get rhpa web -o yaml | hpa convert --to core > web.yaml";
        user.run_inline(restore).await?;
        user.follow("2. Move one autoscaler", Back).await?;
        self.scale_by_load(4).await?;

        user.follow("3. Move a namespace", Steps).await?;
        self.wait_for_active_autoscaler().await?;
        self.scale_by_load(6).await?;
        user.follow("3. Move a namespace", Back).await?;
        self.scale_by_load(2).await?;

        release.stop().await?;
        user.run_inline("helm uninstall hpa-controller --namespace autoscaling").await?;
        user.run_inline(&format!("kubectl delete crd {CRD}")).await?;
        Ok(())
    }

    /// Changes the load, and waits until the running controller has scaled.
    async fn scale_by_load(&self, replicas: i32) -> Result<()> {
        self.env.set_cpu("web", Load::Total(i64::from(replicas) * 50));
        self.web.wait_for_replicas(replicas).await?;
        Ok(())
    }

    async fn start_release(&self) -> Result<Release> {
        let deployments = Api::namespaced(self.env.client.clone(), NAMESPACE);
        Release::start(&self.env, &deployments).await
    }

    async fn wait_for_lease(&self) -> Result<()> {
        let leases = Api::<Lease>::namespaced(self.env.client.clone(), NAMESPACE);
        wait::object(&leases, NAME, "a leader", WAIT_LIMIT, |lease| {
            let spec = lease.spec.as_ref();
            spec.and_then(|spec| spec.holder_identity.as_ref())
                .is_some_and(|holder| !holder.is_empty())
        })
        .await?;
        Ok(())
    }

    /// Waits for the result of the guide's check: `AbleToScale` and `ScalingActive` are `True`.
    async fn wait_for_active_autoscaler(&self) -> Result<()> {
        let (client, ns) = (self.env.client.clone(), &self.env.ns);
        let api = Api::<DynamicObject>::namespaced_with(client, ns, &CUSTOM_KIND.resource());
        wait::object(&api, "web", "a status", WAIT_LIMIT, |hpa| {
            let conditions = hpa.data["status"]["conditions"].as_array();
            ["AbleToScale", "ScalingActive"].iter().all(|condition| {
                conditions.is_some_and(|all| {
                    all.iter().any(|one| one["type"] == *condition && one["status"] == "True")
                })
            })
        })
        .await?;
        Ok(())
    }
}
