# What CI runs, and what it does not. `just` lists the recipes.

[private]
default:
    @just --list

# All tests.
test:
    cargo test --workspace

# Traces: the feature `otlp` and its tests.
otlp:
    cargo clippy --workspace --features hpa/otlp --bin hpa --test otlp -- -D warnings
    cargo test --workspace --features hpa/otlp --bin hpa --test otlp

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

# What a controller costs, seen from outside, with 1000 autoscalers of 10 pods; flags as `hpa-bench run --help` has them.
load *FLAGS:
    cargo build --release -p hpa -p hpa-bench
    MIMALLOC_PURGE_DELAY=0 target/release/hpa-bench run --controller ours=target/release/hpa {{ FLAGS }}

# Fuzz a target (quantity, selector, autoscaler, decide) for some seconds; needs nightly and cargo-fuzz.
fuzz TARGET SECONDS="60":
    cargo +nightly fuzz run {{ TARGET }} -- -max_total_time={{ SECONDS }}

# Each crate alone, so that none leans on features another one turned on.
each-alone:
    for crate in hpa-calc hpa-crd hpa-metrics-client hpa-testbed hpa-controller hpa-bench hpa; do cargo test -p $crate || exit 1; done

# The chart, with helm and a real kube-apiserver where there are such; HELM names one helm or several, separated by colons.
chart:
    cargo test --test chart

# Licences, advisories, duplicate and banned crates; needs cargo-deny.
deny:
    cargo deny check

# Advisories alone, from the lock file; needs cargo-audit.
audit:
    cargo audit

# What the binary is made of, as CycloneDX in target/dist/hpa.cdx.json; needs cargo-cyclonedx.
sbom:
    cargo cyclonedx --manifest-path crates/hpa/Cargo.toml --format json --override-filename hpa.cdx
    mkdir -p target/dist && mv crates/hpa/hpa.cdx.json target/dist/
    rm -f crates/*/hpa.cdx.json tests/hpa.cdx.json # it writes one for every member

# The image, by docker, podman or what CONTAINER_TOOL names.
image NAME="localhost/hpa:0.1.0":
    ${CONTAINER_TOOL:-docker} build --file Containerfile --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --tag {{ NAME }} .

# The same for several platforms at once, pushed; needs docker buildx.
image-all NAME:
    docker buildx build --file Containerfile --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
        --platform linux/amd64,linux/arm64 --provenance=true --sbom=true --push --tag {{ NAME }} .

# Completions and manual pages, in target/dist.
completions:
    cargo build --release -p hpa
    mkdir -p target/dist
    for shell in bash elvish fish powershell zsh; do target/release/hpa completions $shell > target/dist/hpa.$shell || exit 1; done
    target/release/hpa man > target/dist/hpa.1
    for command in run crd convert; do target/release/hpa man $command > target/dist/hpa-$command.1 || exit 1; done
