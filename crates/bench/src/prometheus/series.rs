//! The series of the fake Prometheus, and its response to `/api/v1/series`.

use std::{fmt::Write as _, sync::Arc};

use axum::body::Bytes;

use crate::{args::Population, objects};

/// The name of the series behind [`objects::PODS_METRIC`].
const REQUESTED_SERIES: &str = "http_requests_total";
/// Number of series in one part of a response, which is then about 64 KiB long.
const SERIES_PER_PART: u64 = 256;
/// Each series has one of these labels. The index of its name determines which one.
const ADDITIONAL_LABELS: [&str; 4] = ["code", "handler", "le", "method"];

/// The series of the fake Prometheus. They are generated while they are sent, so any number of them
/// needs no memory.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    series_count: u64,
    name_count: u64,
    /// Shared, because the servers clone their state with every request.
    targets: Arc<[objects::TargetId]>,
    pods_per_target: u64,
}

impl Catalog {
    /// A catalog of series with `name_count` different names, distributed over all pods. Each name
    /// has at least one series, even if `series_count` is less.
    pub(crate) fn new(population: &Population, series_count: u64, name_count: u64) -> Self {
        let targets = objects::targets(population).collect();
        Self {
            series_count: series_count.max(name_count),
            name_count,
            targets,
            pods_per_target: u64::from(population.pods).max(1),
        }
    }

    /// One series for each pod.
    pub(crate) fn for_pods(population: &Population) -> Self {
        let pods = u64::from(population.autoscalers) * u64::from(population.pods);
        Self::new(population, pods, 1)
    }

    /// Whether there are series with a name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.index_of(name).is_some()
    }

    fn index_of(&self, name: &str) -> Option<u64> {
        if name == REQUESTED_SERIES {
            return Some(0);
        }
        let index: u64 = name.strip_prefix("metric_")?.strip_suffix("_total")?.parse().ok()?;
        (1..self.name_count).contains(&index).then_some(index)
    }

    /// The parts of the response: the series with a name, or all series.
    pub(crate) fn response_parts(self, name: Option<&str>) -> impl Iterator<Item = Bytes> + use<> {
        let (first, end) = match name.map(|name| self.index_of(name)) {
            None => (0, self.series_count),
            Some(Some(index)) => (self.start_of(index), self.start_of(index + 1)),
            Some(None) => (0, 0),
        };
        let starts = (first..end).step_by(SERIES_PER_PART.try_into().unwrap_or(usize::MAX));
        let body = starts.map(move |start| {
            let mut part = String::new();
            for position in start..end.min(start + SERIES_PER_PART) {
                if position != first {
                    part.push(',');
                }
                self.write(&mut part, position);
            }
            Bytes::from(part)
        });
        let head = Bytes::from_static(br#"{"status":"success","data":["#);
        std::iter::once(head).chain(body).chain([Bytes::from_static(b"]}")])
    }

    /// The position of the first series with the name at `index`. Series with a name are adjacent,
    /// as in a response of Prometheus.
    fn start_of(&self, index: u64) -> u64 {
        let start = u128::from(self.series_count) * u128::from(index) / u128::from(self.name_count);
        start.try_into().unwrap_or(u64::MAX)
    }

    /// Returns the index of the name to which the series at `position` belongs.
    fn name_index_at(&self, position: u64) -> u64 {
        let guess =
            u128::from(position) * u128::from(self.name_count) / u128::from(self.series_count);
        let guess: u64 = guess.try_into().unwrap_or(u64::MAX);
        // The two divisions round down, so the result may be too low by one.
        if self.start_of(guess + 1) <= position { guess + 1 } else { guess }
    }

    fn write(&self, text: &mut String, position: u64) {
        let name_index = self.name_index_at(position);
        let index = position - self.start_of(name_index);
        let pod_count = (self.targets.len() as u64 * self.pods_per_target).max(1);
        let (pod_index, variant) = (index % pod_count, index / pod_count);
        let target = usize::try_from(pod_index / self.pods_per_target).unwrap_or(usize::MAX);
        let Some((namespace, app)) = self.targets.get(target) else { return };
        let pod = pod_index % self.pods_per_target;
        let label = usize::try_from(name_index % ADDITIONAL_LABELS.len() as u64);
        let label = label.ok().and_then(|index| ADDITIONAL_LABELS.get(index));
        let series = series_name(name_index);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            concat!(
                r#"{{"__name__":"{series}","{label}":"{variant}","container":"app","#,
                r#""endpoint":"metrics","instance":"10.{a}.{b}.{c}:8080","#,
                r#""job":"{namespace}/{app}","namespace":"{namespace}","#,
                r#""node":"node-{node}","pod":"{app}-{pod}","service":"{app}"}}"#,
            ),
            series = series,
            label = label.unwrap_or(&"code"),
            variant = variant,
            a = pod_index >> 16 & 255,
            b = pod_index >> 8 & 255,
            c = pod_index & 255,
            namespace = namespace,
            app = app,
            node = pod_index % 100,
            pod = pod,
        );
    }
}

fn series_name(index: u64) -> String {
    if index == 0 { REQUESTED_SERIES.to_owned() } else { format!("metric_{index}_total") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::args::tests::population;

    fn response(catalog: &Catalog, name: Option<&str>) -> Vec<Value> {
        let body: Vec<u8> = catalog.clone().response_parts(name).flatten().collect();
        let response: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(response["status"], "success");
        response["data"].as_array().expect("a list").clone()
    }

    #[rstest]
    #[case::many_series(1000, 7)]
    #[case::one_name(300, 1)]
    #[case::as_many_names_as_series(600, 600)]
    fn all_series_are_distinct_and_names_are_adjacent(#[case] series: u64, #[case] names: u64) {
        // Four pods.
        let catalog = Catalog::new(&population(&["--autoscalers=2", "--pods=2"]), series, names);
        let all = response(&catalog, None);
        assert_eq!(all.len() as u64, series);
        let distinct: BTreeMap<String, &Value> =
            all.iter().map(|series| (series.to_string(), series)).collect();
        assert_eq!(distinct.len() as u64, series);
        let mut runs: Vec<&str> =
            all.iter().map(|series| series["__name__"].as_str().expect("a name")).collect();
        runs.dedup();
        assert_eq!(runs.len() as u64, names);
        assert_eq!(runs[0], REQUESTED_SERIES);
        for name in runs {
            let of_name = all.iter().filter(|series| series["__name__"] == name);
            assert_eq!(response(&catalog, Some(name)), of_name.cloned().collect::<Vec<_>>());
        }
        assert_eq!(response(&catalog, Some("metric_9999_total")), Vec::<Value>::new());
    }

    #[test]
    fn each_pod_has_a_series() {
        let population = population(&["--autoscalers=3", "--pods=2", "--namespaces=2"]);
        let pods: Vec<String> = response(&Catalog::for_pods(&population), None)
            .iter()
            .map(|series| format!("{}/{}", series["namespace"], series["pod"]).replace('"', ""))
            .collect();
        let expected = ["bench-0/app-0-", "bench-1/app-1-", "bench-0/app-2-"];
        let expected = expected.iter().flat_map(|pod| [format!("{pod}0"), format!("{pod}1")]);
        assert_eq!(pods, expected.collect::<Vec<_>>());
    }
}
