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
use super::coexistence::CUSTOM;
use super::cpu;
use crate::metrics::Load;
use crate::test_env::{Target, TestEnv, WAIT_LIMIT};
use crate::wait;

const CRD: &str = "horizontalpodautoscalers.autoscaling.hpa-rs.dev";

struct Migration {
    env: TestEnv,
    web: Target,
}

/// All commands of the guide succeed, and after each switch the new controller scales.
pub(super) async fn migration_guide(env: TestEnv) -> Result<()> {
    let skipped = |reason: &str| println!("  migration_guide: skipped, {reason}");
    if !hpa_tests::harness::long_tests() {
        skipped("it takes a minute (HPA_LONG_TESTS=1 runs it)");
        return Ok(());
    }
    let Some(access) = env.plane.user_access()? else {
        skipped("the testbed has no built-in controller");
        return Ok(());
    };
    let Some(mut user) = User::new(&env, &access.kubectl, &access.kubeconfig)? else {
        skipped("there is no kubectl or no helm");
        return Ok(());
    };
    let Some(built_in) = env.plane.reference()? else {
        skipped("there is no built-in controller");
        return Ok(());
    };
    let web = env.deployment("web", 2).await?;
    env.cpu("web", Load::Total(100));
    env.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    env.settled("web", 2).await?;
    let migration = Migration { env, web };

    // The built-in controller runs, and the shadow sees it scale.
    let shadow_report = user.follow("1. Run in shadow mode", Steps);
    tokio::try_join!(shadow_report, migration.scales_to(4))?;
    let shadow = migration.start_release().await?;
    user.follow("2. Record the current state", Steps).await?;
    drop(built_in);
    shadow.stop().await?;
    user.follow("4. Switch hpa-rs on", Steps).await?;
    let release = migration.start_release().await?;
    migration.wait_for_lease().await?;
    migration.scales_to(6).await?;
    migration.scales_to(4).await?;
    user.follow("4. Switch hpa-rs on", Check).await?;
    user.follow("4. Switch hpa-rs on", Back).await?;
    release.stop().await?;
    let built_in = migration.env.plane.reference()?;
    migration.scales_to(2).await?;
    user.run_inline("helm uninstall hpa-controller --namespace autoscaling").await?;

    migration.follow_managed_control_plane(&mut user).await?;
    drop(built_in);
    user.has_followed_the_whole_guide()
}

impl Migration {
    /// The second half of the guide. The built-in controller is running throughout.
    async fn follow_managed_control_plane(&self, user: &mut User) -> Result<()> {
        user.follow("1. Install hpa-rs", Steps).await?;
        let release = self.start_release().await?;
        user.follow("2. Move one autoscaler", Steps).await?;
        self.custom_autoscaler_is_active().await?;
        self.scales_to(4).await?;
        user.follow("2. Move one autoscaler", Back).await?;
        self.scales_to(6).await?;

        user.follow("2. Move one autoscaler", Steps).await?;
        self.custom_autoscaler_is_active().await?;
        let restore = "kubectl -n shop get rhpa web -o yaml | hpa convert --to core > web.yaml";
        user.run_inline(restore).await?;
        user.follow("2. Move one autoscaler", Back).await?;
        self.scales_to(4).await?;

        user.follow("3. Move a namespace", Steps).await?;
        self.custom_autoscaler_is_active().await?;
        self.scales_to(6).await?;
        user.follow("3. Move a namespace", Back).await?;
        self.scales_to(2).await?;

        release.stop().await?;
        user.run_inline("helm uninstall hpa-controller --namespace autoscaling").await?;
        user.run_inline(&format!("kubectl delete crd {CRD}")).await?;
        Ok(())
    }

    /// Changes the load, and waits until the running controller has scaled.
    async fn scales_to(&self, replicas: i32) -> Result<()> {
        self.env.cpu("web", Load::Total(i64::from(replicas) * 50));
        self.web.scaled_to(replicas).await?;
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

    /// The check of the guide: `AbleToScale` and `ScalingActive` are `True`.
    async fn custom_autoscaler_is_active(&self) -> Result<()> {
        let (client, ns) = (self.env.client.clone(), &self.env.ns);
        let api = Api::<DynamicObject>::namespaced_with(client, ns, &CUSTOM.resource());
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
