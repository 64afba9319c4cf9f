//! Advice about the objects that files lack.

use hpa_calc::{Inputs, MetricsApi, api::MetricSpec, shell::quote};

use super::Dump;
use crate::{kubectl::escape, terminal::escape_line, values_path::values_path};

impl Dump {
    /// A sentence about each object that a decision needs and the files lack, with the command that
    /// gets it.
    pub(super) fn missing_object_advice(&self, inputs: &Inputs) -> Vec<String> {
        let Inputs { hpa, scale, .. } = inputs;
        // The names are escaped, because users run the commands in a shell, and the files may be
        // untrusted.
        let namespace = match hpa.metadata.namespace.as_str() {
            "" => "NAMESPACE",
            namespace => namespace,
        };
        let escaped_namespace = escape(namespace);
        let has = |kind: &str| self.of_kind(kind).next().is_some();
        let (mut advice, target) = (Vec::new(), &hpa.spec.scale_target_ref);
        // A manifest of the target has no status, so it lacks the current replicas.
        let has_scale = self.has_status_replicas(hpa);
        if !has_scale {
            advice.push(missing_sentence(
                &format!("the Scale of {} {}", target.kind, target.name),
                &format!(
                    "kubectl get {} {} --subresource=scale -n {escaped_namespace} -o yaml",
                    quote(&target.kind.to_lowercase()),
                    quote(&target.name)
                ),
            ));
        }
        // A target without pods has no usage either.
        let has_pods = scale.as_ref().is_ok_and(|scale| scale.status_replicas != 0);
        if !has("Pod") && (!has_scale || has_pods) {
            let command = format!("kubectl get pods -n {escaped_namespace} -o yaml");
            advice.push(missing_sentence("the Pods of the target", &command));
        }
        let plan = inputs.plan();
        // Without a scale, the plan has no queries. The decision then needs all metrics.
        let is_needed =
            |index| !has_scale || scale.is_err() || plan.queries().any(|(read, _)| read == index);
        let unserved = inputs.advice_about_unserved_api();
        let needed = hpa.spec.metrics.iter().enumerate().filter(|(index, _)| is_needed(*index));
        for (index, spec) in needed {
            let Some((kind, objects, command)) = objects_of_metric(spec, namespace) else {
                continue;
            };
            if has(kind) {
                continue;
            }
            // The command would fail if the API has no server.
            let sentence = unserved.get(&index).cloned();
            let sentence = sentence.unwrap_or_else(|| missing_sentence(&objects, &command));
            // Metrics of one kind may be in the same objects.
            if !advice.contains(&sentence) {
                advice.push(sentence);
            }
        }
        advice
    }
}

fn missing_sentence(objects: &str, command: &str) -> String {
    escape_line(&format!(
        "The files lack {objects}. Save the output of this command to a file, and add it with -f: \
         {command}"
    ))
}

/// The kind of the objects that have the values of a metric, a text about them, and the command
/// that gets them. `None` for a metric that can't be requested.
fn objects_of_metric(spec: &MetricSpec, namespace: &str) -> Option<(&'static str, String, String)> {
    let (api, path) = values_path(namespace, spec)?;
    let kind = match api {
        MetricsApi::Resource => {
            let command =
                format!("kubectl get pods.metrics.k8s.io -n {} -o yaml", escape(namespace));
            return Some(("PodMetrics", "the usage of the pods (PodMetrics)".to_owned(), command));
        }
        MetricsApi::Custom => "MetricValue",
        MetricsApi::External => "ExternalMetricValue",
    };
    // Each server of the APIs has this version. The chart of prometheus-adapter registers no other.
    let path = format!("/apis/{}/v1beta1/namespaces/{path}", api.group());
    let objects = format!("the metric {} ({kind})", spec.metric_name());
    Some((kind, objects, format!("kubectl get --raw {}", quote(&path))))
}
