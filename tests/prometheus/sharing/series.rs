//! Random series, as an OpenMetrics file.

use std::{fmt::Write as _, iter};

use fastrand::Rng;

/// The namespaces of the series.
pub(super) const NAMESPACES: [&str; 3] = ["shop", "pay", "ops"];
/// The number of pods with series in each namespace.
const POD_COUNT: usize = 7;
/// Seconds between samples.
const STEP: i64 = 15;
const STEP_COUNT: i64 = 80;
/// The lookback of instant queries in seconds.
const LOOKBACK: i64 = 300;

/// The names of all pods, including one without series.
pub(super) fn pods() -> Vec<String> {
    let with_series = (0..POD_COUNT).map(|index| format!("web-{index}"));
    with_series.chain(iter::once("none".to_owned())).collect()
}

/// A file with series until `end`, in seconds since 1970.
pub(super) fn openmetrics(end: i64, rng: &mut Rng) -> String {
    let mut file = OpenMetricsFile { text: String::new(), end, rng };
    file.add_counters();
    file.add_gauges();
    file.add_histograms();
    file.add_join_series();
    file.text.push_str("# EOF\n");
    file.text
}

struct OpenMetricsFile<'r> {
    text: String,
    end: i64,
    rng: &'r mut Rng,
}

impl OpenMetricsFile<'_> {
    fn start_family(&mut self, name: &str, kind: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
    }

    /// Adds a series with a sample for each step. It may start late, have gaps, or end early.
    fn add_series(&mut self, name: &str, labels: &str, mut value: impl FnMut(&mut Rng) -> f64) {
        let first = if self.rng.u8(..4) == 0 { self.rng.i64(0..STEP_COUNT) } else { 0 };
        // One series in six ended before the lookback, and one in six within it.
        let age = match self.rng.u8(..6) {
            0 => LOOKBACK + self.rng.i64(0..600),
            1 => self.rng.i64(0..LOOKBACK),
            _ => 0,
        };
        for step in first..STEP_COUNT {
            let time = self.end - (STEP_COUNT - 1 - step) * STEP;
            let value = value(self.rng);
            if time <= self.end - age && self.rng.u8(..20) > 0 {
                let _ = writeln!(self.text, "{name}{{{labels}}} {value} {time}");
            }
        }
    }

    /// Calls a function with the labels of random pods, and sometimes with those of a namespace.
    fn for_each_pod(&mut self, add: impl Fn(&mut Self, &str)) {
        for namespace in NAMESPACES {
            for pod in pods().iter().take(POD_COUNT) {
                if self.rng.u8(..7) > 0 {
                    add(self, &format!("namespace=\"{namespace}\",pod=\"{pod}\""));
                }
            }
            // A series without a pod.
            if self.rng.bool() {
                add(self, &format!("namespace=\"{namespace}\""));
            }
        }
    }

    /// Counters with occasional resets.
    fn add_counters(&mut self) {
        self.start_family("requests", "counter");
        self.for_each_pod(|file, labels| {
            for code in ["200", "500"] {
                let mut total = file.rng.f64() * 1e6;
                file.add_series("requests_total", &format!("{labels},code=\"{code}\""), |rng| {
                    total = if rng.u8(..30) == 0 { rng.f64() } else { total + rng.f64() * 99.0 };
                    total
                });
            }
        });
    }

    /// Gauges: several for a pod, also with NaN and infinite values.
    fn add_gauges(&mut self) {
        self.start_family("inflight", "gauge");
        self.for_each_pod(|file, labels| {
            for container in ["app", "proxy"].into_iter().take(file.rng.usize(1..=2)) {
                let labels = format!("{labels},container=\"{container}\"");
                file.add_series("inflight", &labels, |rng| match rng.u8(..40) {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => 0.0,
                    _ => (rng.f64() - 0.3) * 10_f64.powi(rng.i32(-3..9)),
                });
            }
        });
        self.start_family("workers", "gauge");
        self.for_each_pod(|file, labels| {
            file.add_series("workers", labels, |rng| f64::from(rng.u8(..4)));
        });
    }

    fn add_histograms(&mut self) {
        self.start_family("latency_seconds", "histogram");
        self.for_each_pod(|file, labels| {
            let mut totals = [0.0; 4];
            let bounds = ["0.1", "0.5", "2", "+Inf"];
            let totals_by_step: Vec<[f64; 4]> = (0..STEP_COUNT)
                .map(|_| {
                    let mut sum = 0.0;
                    totals = totals.map(|total| {
                        sum += file.rng.f64() * 10.0;
                        total + sum
                    });
                    totals
                })
                .collect();
            for (index, bound) in bounds.into_iter().enumerate() {
                let mut values = totals_by_step.iter().map(|totals| totals[index]);
                let labels = format!("{labels},le=\"{bound}\"");
                file.add_series("latency_seconds_bucket", &labels, |_| {
                    values.next().unwrap_or_default()
                });
            }
        });
    }

    /// Series that templates join with others: limits and nodes of pods, and zones of nodes.
    fn add_join_series(&mut self) {
        self.start_family("limits", "gauge");
        self.for_each_pod(|file, labels| {
            file.add_series("limits", labels, |rng| f64::from(rng.u8(1..9)));
        });
        self.start_family("pod_info", "gauge");
        self.for_each_pod(|file, labels| {
            let node = file.rng.u8(..3);
            file.add_series("pod_info", &format!("{labels},node=\"node-{node}\""), |_| 1.0);
        });
        self.start_family("zone_info", "gauge");
        for node in 0..3 {
            let labels = format!("node=\"node-{node}\",zone=\"zone-{}\"", node % 2);
            self.add_series("zone_info", &labels, |_| 1.0);
        }
    }
}
