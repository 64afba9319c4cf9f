# Development tasks. `just` lists the recipes.

[private]
default:
    @just --list

# Run all tests.
test:
    cargo test --workspace

# Check formatting, lints and rustdoc. Warnings are errors.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Replay the conformance vectors. HPA_CONFORMANCE_DIR names another folder of vectors.
conformance *FILES:
    cargo test --release --test conformance -- {{ FILES }}

# Kill, stop and cut off the leader of two instances. Prints how long each leader change took.
availability:
    cargo test --test availability -- --nocapture

# End to end against the testbed and, if found, a real kube-apiserver (see docs/testing.md).
control-plane *SCENARIOS:
    cargo test --test control-plane -- {{ SCENARIOS }}

# Benchmark the decision engine, with allocations.
bench:
    cargo bench -p hpa-calc --bench engine

# CPU, memory and connections of reading a metric of 1000 pods.
bench-pods:
    cargo bench -p hpa-collectors --bench pods

# Benchmark the controller with 1000 autoscalers of 10 pods. FLAGS are those of `hpa-bench run`.
load *FLAGS:
    cargo build --release -p hpa -p hpa-bench
    MIMALLOC_PURGE_DELAY=0 target/release/hpa-bench run --controller ours=target/release/hpa {{ FLAGS }}

# Fuzz all targets of fuzz/fuzz_targets or some for so many seconds each.
fuzz SECONDS="60" *TARGETS:
    fuzz/run {{ SECONDS }} {{ TARGETS }}

# Test each crate alone, so that none depends on features that another one enables.
each-alone:
    .ci/run crates

# Write the pages of docs/reference.
reference:
    UPDATE_REFERENCE=1 cargo test --workspace --bin hpa reference::pages

# Record the names that a release promises, in release/interface.txt.
interface:
    UPDATE_INTERFACE=1 cargo test --workspace --bin hpa reference::interface

# Record what this version stores, in tests/upgrade/stored.
stored-state:
    cargo test --test upgrade -- --ignored record_stored_state

# Build the site of the documentation in target/book/html, and check its links. Needs mdbook.
site:
    docs/book/build

# Test the charts, with helm (HELM, or in PATH) and a real kube-apiserver if found.
chart:
    cargo test --test chart

# Write the manifests of the adapter for those who don't use Helm.
adapter-manifests:
    UPDATE_MANIFESTS=1 cargo test --test chart

# Write the pictures of docs/tuning.md, and print its tables.
tuning:
    cargo build --release -p hpa
    for file in examples/simulate/*.yaml; do target/release/hpa simulate $file --svg docs/tuning/$(basename $file .yaml).svg || exit 1; done

# Write the pictures of the dashboard in docs/dashboard. Needs Chromium, chromedriver, curl and jq.
pictures:
    cargo build -p hpa
    docs/dashboard/take target/debug/hpa

# Print suggestions for the worked examples of docs/tuning.md. It takes minutes.
recommendations:
    cargo build --release -p hpa
    cd examples/simulate && ../../target/release/hpa recommend diurnal.yaml flapping.yaml metric-outage.yaml pod-size.yaml queue-to-zero.yaml rollout-surge.yaml slow-start.yaml tolerance.yaml --candidates 200 -o markdown

# Check licenses, advisories, sources, duplicate and banned crates. Needs cargo-deny.
deny:
    cargo deny check

# Check advisories for Cargo.lock. Needs cargo-audit.
audit:
    cargo audit

# Write an SBOM of the binary, as CycloneDX, to target/release/hpa.cdx.json. Needs cargo-cyclonedx.
sbom:
    cargo cyclonedx --manifest-path crates/hpa/Cargo.toml --format json --override-filename hpa.cdx
    mkdir -p target/release && mv crates/hpa/hpa.cdx.json target/release/
    rm -f crates/*/hpa.cdx.json tests/hpa.cdx.json # cargo-cyclonedx writes one per workspace member

# Build a release in dist/: static binaries, images, SBOM, charts, checksums. Lists what it skips.
release *TARGETS:
    release/build {{ TARGETS }}

# Build the image twice from two checkouts, with buildah, and compare.
image-reproducible BINARY:
    release/test {{ BINARY }}

# Build the image, with docker or with CONTAINER_TOOL.
image NAME="localhost/hpa:0.1.0":
    ${CONTAINER_TOOL:-docker} build --file Containerfile --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
        --build-arg REVISION=$(git rev-parse HEAD) --tag {{ NAME }} .

# Build the image for several platforms and push it. Needs docker buildx.
image-all NAME:
    docker buildx build --file Containerfile --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
        --build-arg REVISION=$(git rev-parse HEAD) --platform linux/amd64,linux/arm64 --provenance=true --sbom=true --push --tag {{ NAME }} .

# Write shell completions and manual pages to target/release.
completions:
    cargo build --release -p hpa
    for shell in bash elvish fish powershell zsh; do target/release/hpa completions $shell > target/release/hpa.$shell || exit 1; done
    target/release/hpa man > target/release/hpa.1
    for command in demo run adapter shadow-report explain dashboard status lint simulate recommend replay forecast rules schedule crd convert completions man version; do target/release/hpa man $command > target/release/hpa-$command.1 || exit 1; done
