//! Advice about the objects that files lack.

use hpa_calc::Inputs;

use super::Dump;
use crate::{kubectl::escape, terminal::escape_line};

impl Dump {
    /// A sentence about each object that a decision needs and the files lack, with the command that
    /// gets it.
    pub(super) fn missing_object_advice(&self, inputs: &Inputs) -> Vec<String> {
        let Inputs { hpa, scale, .. } = inputs;
        // The names are escaped, because users run the commands in a shell, and the files may be
        // untrusted.
        let namespace = match hpa.metadata.namespace.as_str() {
            "" => "NAMESPACE".to_owned(),
            namespace => escape(namespace),
        };
        let has = |kind: &str| self.of_kind(kind).next().is_some();
        let (mut advice, target) = (Vec::new(), &hpa.spec.scale_target_ref);
        // A manifest of the target has no status, so it lacks the current replicas.
        let has_scale = self.has_status_replicas(hpa);
        let mut add = |objects: &str, command: String| {
            let sentence =
                format!("The files lack {objects}. Add with -f what this prints: {command}");
            advice.push(escape_line(&sentence));
        };
        if !has_scale {
            add(
                &format!("the Scale of {} {}", target.kind, target.name),
                format!(
                    "kubectl get {} {} --subresource=scale -n {namespace} -o yaml",
                    escape(&target.kind.to_lowercase()),
                    escape(&target.name)
                ),
            );
        }
        // A target without pods has no usage either.
        let has_pods = scale.as_ref().is_ok_and(|scale| scale.status_replicas != 0);
        if !has("Pod") && (!has_scale || has_pods) {
            add("the Pods of the target", format!("kubectl get pods -n {namespace} -o yaml"));
        }
        let plan = inputs.plan();
        // Without a scale, the plan has no queries. The decision then needs all metrics.
        let is_needed =
            |index| !has_scale || scale.is_err() || plan.queries().any(|(read, _)| read == index);
        let needed = hpa.spec.metrics.iter().enumerate().filter(|(index, _)| is_needed(*index));
        for (_, spec) in needed {
            let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces";
            let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces";
            if (spec.resource.is_some() || spec.container_resource.is_some()) && !has("PodMetrics")
            {
                let command = format!("kubectl get pods.metrics.k8s.io -n {namespace} -o yaml");
                add("the usage of the pods (PodMetrics)", command);
            } else if let Some(pods) = spec.pods.as_ref().filter(|_| !has("MetricValue")) {
                let name = &pods.metric.name;
                let path = format!("{custom}/{namespace}/pods/*/{}", escape(name));
                let command = format!("kubectl get --raw '{path}'");
                add(&format!("the metric {name} (MetricValue)"), command);
            } else if let Some(object) = spec.object.as_ref().filter(|_| !has("MetricValue")) {
                let (name, described) = (&object.metric.name, &object.described_object);
                let kind = escape(&described.kind.to_lowercase());
                let (object, metric) = (escape(&described.name), escape(name));
                let command =
                    format!("kubectl get --raw '{custom}/{namespace}/{kind}/{object}/{metric}'");
                add(&format!("the metric {name} (MetricValue)"), command);
            } else if let Some(one) = spec.external.as_ref().filter(|_| !has("ExternalMetricValue"))
            {
                let name = &one.metric.name;
                let path = format!("{external}/{namespace}/{}", escape(name));
                let command = format!("kubectl get --raw '{path}'");
                add(&format!("the metric {name} (ExternalMetricValue)"), command);
            }
        }
        advice.dedup();
        advice
    }
}
