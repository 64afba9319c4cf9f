# What CI runs, and what it does not. `just` lists the recipes.

[private]
default:
    @just --list

# All tests.
test:
    cargo test --workspace

# Formatting, lints and documentation, warnings being errors.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The recorded answers of the reference controller; HPA_CONFORMANCE_DIR names another folder of them.
conformance *FILES:
    cargo test --release --test conformance -- {{ FILES }}

# Two instances, of which the leader is killed, stopped and cut off: prints how long the takeovers took.
availability:
    cargo test --test availability -- --nocapture

# End to end against the testbed and, where there is one, a real kube-apiserver (KUBEBUILDER_ASSETS, or setup-envtest's store).
control-plane *SCENARIOS:
    cargo test --test control-plane -- {{ SCENARIOS }}

# The engine's cost, allocations included.
bench:
    cargo bench -p hpa-calc --bench engine

# Fuzz a target (quantity, selector, autoscaler, decide) for some seconds; needs nightly and cargo-fuzz.
fuzz TARGET SECONDS="60":
    cargo +nightly fuzz run {{ TARGET }} -- -max_total_time={{ SECONDS }}

# Each crate alone, so that none leans on features another one turned on.
each-alone:
    for crate in hpa-calc hpa-crd hpa-metrics-client hpa-controller hpa; do cargo test -p $crate || exit 1; done

# Licences, advisories, duplicate and banned crates; needs cargo-deny.
deny:
    cargo deny check
