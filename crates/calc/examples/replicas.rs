//! A replica calculation alone, without an autoscaler object.

#![expect(clippy::print_stdout, reason = "example")]

use hpa_calc::{
    MilliValue,
    replicas::{ValueTarget, external_average_value},
    settings::Tolerances,
};

fn main() {
    let target = ValueTarget {
        replicas: 4,
        target: MilliValue::from_units(10),
        tolerances: Tolerances { up: 0.1, down: 0.1 },
    };
    for jobs in [20, 38, 44, 45, 120] {
        let proposal = external_average_value(&target, &[MilliValue::from_units(jobs)]);
        println!(
            "{jobs} jobs, 10 per replica: ratio {:.2}, {} replicas ({:?})",
            proposal.ratio, proposal.replicas, proposal.rule
        );
    }
}
