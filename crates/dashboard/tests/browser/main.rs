//! The page in a headless Chromium. If there is none, the tests are skipped.
//!
//! - `AXE_CORE` is the path of `axe.min.js` of the npm package `axe-core`, which checks
//!   accessibility.
//! - `DASHBOARD_SCREENSHOTS` is a directory for screenshots.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod chromium;
mod cluster;
mod detail;
mod list;
mod stream;

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use hpa_controller::k8s::{ClientLimits, Clients};
use hpa_dashboard::{Dashboard, Options};
use hpa_tests::harness::NAMESPACE;

use self::{
    chromium::{Tab, find_program},
    cluster::Cluster,
};

/// The list has rows.
const LOADED: &str = "document.querySelectorAll('#autoscalers tbody tr').length > 0";
/// The page of an autoscaler has pods and events.
const EXPLAINED: &str = "document.querySelectorAll('#metrics tbody tr').length > 4
    && document.querySelectorAll('#events tr').length > 1";
/// The page of an autoscaler has facts, conditions and a sentence.
const DECIDED: &str = "document.querySelectorAll('#facts dd').length > 0
    && document.querySelectorAll('#conditions li').length > 0
    && !document.querySelector('#detail-sentence').textContent.startsWith('Reading')";

/// Opens the list of [`Cluster::new`]. `None` without a browser.
async fn open_list(others: usize) -> Option<(Cluster, Tab)> {
    let program = find_program()?;
    let cluster = Cluster::new(others).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    Some((cluster, tab))
}

async fn text(tab: &mut Tab, id: &str) -> String {
    let text = tab.evaluate(&format!("document.getElementById('{id}').innerText")).await;
    text.as_str().expect("a text").to_owned()
}

/// Types the filter of the list.
async fn set_filter(tab: &mut Tab, filter: &str) {
    let input = format!(
        "(() => {{ const query = document.getElementById('query'); query.value = '{filter}';
            query.dispatchEvent(new Event('input')); }})()"
    );
    tab.evaluate(&input).await;
}

fn assert_no_errors(tab: &Tab) {
    assert!(tab.errors.is_empty(), "{:#?}", tab.errors);
}

#[tokio::test]
async fn page_of_one_namespace_has_no_filter_for_namespaces() {
    let Some(program) = find_program() else { return };
    let mut tab = Tab::new(&program).await;
    let filter = "document.getElementById('namespace').closest('label')";
    // A page whose server has ended reports errors.
    let mut running = Vec::new();
    for (namespace, scope, is_hidden) in [
        (None, "production-eu", false),
        (Some(NAMESPACE.to_owned()), "production-eu, only namespace shop", true),
    ] {
        let options = Options { namespace, ..Options::default() };
        let cluster = Cluster::with_options(0, options).await;
        let shown = format!("document.getElementById('cluster').textContent === '{scope}'");
        tab.open(&cluster.url, &shown).await;
        assert_eq!(tab.evaluate(&format!("{filter}.hidden")).await, is_hidden, "{scope}");
        running.push(cluster);
    }
    assert_no_errors(&tab);
}

/// Draws a chart whose second sample is a minute newer than its right edge. Returns the x
/// coordinates of its line, and the right edge of the grid.
const CHART_WITH_FUTURE_SAMPLE: &str = "import('/chart.js').then(({ createChart }) => {
    const container = document.body.appendChild(document.createElement('div'));
    const now = 10 * 60_000;
    createChart(container)({
        title: 'ahead', now, horizontalLines: [], whole: true, format: String,
        lines: [{ name: 'current', className: 'current', points: [[0, 1], [now + 60_000, 2]] }],
    });
    const path = container.querySelector('path.line.current').getAttribute('d');
    const grid = container.querySelector('path.grid').getAttribute('d');
    const numbers = (text) => [...text.matchAll(/[MH]([0-9.]+)/g)].map(([, x]) => Number(x));
    container.remove();
    return [numbers(path), numbers(grid).at(-1)];
})";

#[tokio::test]
async fn sample_in_the_future_does_not_bend_the_line_back() {
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    let drawn = tab.evaluate(CHART_WITH_FUTURE_SAMPLE).await;
    let line: Vec<f64> =
        drawn[0].as_array().expect("a line").iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(line.len() > 2 && line.is_sorted(), "{drawn}");
    assert_eq!(line.last().copied(), drawn[1].as_f64(), "the line ends at the right edge");
}

/// Runs axe, and returns the serious violations of accessibility rules. The content security policy
/// doesn't apply to scripts that the `DevTools` protocol evaluates.
async fn violations(tab: &mut Tab, axe: &str) -> Vec<String> {
    tab.evaluate(&format!("{axe}; true")).await;
    let run = "axe.run(document, { resultTypes: ['violations'] }).then((result) =>
        result.violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
            .map(({ id, help, nodes }) => `${id}: ${help}: `
                + nodes.slice(0, 3)
                    .map(({ html, failureSummary }) => html + failureSummary).join()))";
    let found = tab.evaluate(run).await;
    let found = found.as_array().expect("violations").iter();
    found.map(|violation| violation.as_str().unwrap_or_default().to_owned()).collect()
}

/// Checks the current page at each width and in both themes: it must not be wider than the window,
/// and `axe`, if given, must find no serious violation. Saves screenshots.
async fn check_appearance(tab: &mut Tab, part: &str, axe: Option<&str>) {
    for width in [1280, 768, 400] {
        for scheme in ["light", "dark"] {
            tab.set_appearance(width, 900, scheme).await;
            let frame = "new Promise((resolve) => requestAnimationFrame(() =>
                requestAnimationFrame(resolve)))";
            tab.evaluate(frame).await;
            let overflow = "document.documentElement.scrollWidth - innerWidth";
            let overflow = tab.evaluate(overflow).await.as_i64().expect("pixels");
            assert!(overflow <= 0, "{part} is wider than {width} pixels");
            save_screenshot(tab, &format!("{part}-{width}-{scheme}")).await;
            if let Some(axe) = axe {
                let found = violations(tab, axe).await;
                assert!(found.is_empty(), "{part} {width} {scheme}: {found:#?}");
            }
        }
    }
}

#[tokio::test]
async fn pages_are_accessible_in_both_themes_and_at_all_widths() {
    let Some(program) = find_program() else { return };
    let axe = std::env::var_os("AXE_CORE").map(|path| fs::read_to_string(path).expect("axe"));
    if axe.is_none() {
        hpa_tests::programs::skip("axe", "AXE_CORE is not set");
    }
    let axe = axe.as_deref();
    let cluster = Cluster::new(30).await;
    cluster.add_unusual_autoscalers();
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    check_appearance(&mut tab, "list", axe).await;
    let origin = cluster.origin();
    for (name, ready) in
        [("web", EXPLAINED), ("failing", DECIDED), ("paused", DECIDED), ("new", DECIDED)]
    {
        tab.open(&format!("{origin}/?autoscaler=core/{NAMESPACE}/{name}"), ready).await;
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            .await;
        check_appearance(&mut tab, name, axe).await;
    }
    assert_no_errors(&tab);
}

/// The state of the connection, as the top of the page shows it.
const STATE: &str = "document.getElementById('live').dataset.state";

#[tokio::test]
async fn outage_is_shown_on_every_page_with_the_age_of_the_values() {
    let Some((cluster, mut tab)) = open_list(5).await else { return };
    tab.wait_for(&format!("{STATE} === 'live'")).await;
    tab.evaluate("document.querySelector('#autoscalers a[href*=\"shop%2Fweb\"]').click()").await;
    tab.wait_for(EXPLAINED).await;
    cluster.stop_answering();
    tab.wait_for(&format!("{STATE} === 'unread'")).await;
    let live = text(&mut tab, "live").await;
    assert!(live.starts_with("Can't read the cluster since "), "{live}");
    tab.wait_for("document.getElementById('problems').childElementCount === 1").await;
    let problem = text(&mut tab, "problems").await;
    assert!(problem.starts_with("The API server has been unreachable since "), "{problem}");
    let age = text(&mut tab, "age").await;
    assert!(age.starts_with("Values from ") && age.ends_with(" ago."), "{age}");
    let sentence = text(&mut tab, "detail-sentence").await;
    assert!(sentence.starts_with("Stays at 5: cpu is at 54% of requests"), "{sentence}");
    check_appearance(&mut tab, "outage", None).await;
    tab.evaluate("history.back()").await;
    tab.wait_for("!document.getElementById('list').hidden").await;
    assert_eq!(text(&mut tab, "count").await, "6 autoscalers");
    check_appearance(&mut tab, "outage-list", None).await;
    cluster.answer_again();
    tab.wait_for(&format!("{STATE} === 'live' && document.getElementById('age').hidden")).await;
    tab.wait_for("document.getElementById('problems').hidden").await;
    assert_no_errors(&tab);
}

#[tokio::test]
async fn list_that_was_never_read_is_not_shown_as_empty() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    cluster.stop_answering();
    let clients = Clients::from_service(cluster.testbed.service(), &ClientLimits::default());
    let dashboard = Dashboard::start(&clients, Options::default()).await.expect("a port");
    let mut tab = Tab::new(&program).await;
    tab.open(&dashboard.url(), &format!("{STATE} === 'unread'")).await;
    assert_eq!(text(&mut tab, "count").await, "No autoscaler could be read");
    assert_eq!(tab.evaluate("document.getElementById('age').hidden").await, true);
    check_appearance(&mut tab, "never-read", None).await;
}

/// Saves a screenshot if `DASHBOARD_SCREENSHOTS` is set.
async fn save_screenshot(tab: &mut Tab, name: &str) {
    let Some(dir) = std::env::var_os("DASHBOARD_SCREENSHOTS") else { return };
    let picture = STANDARD.decode(tab.screenshot().await).expect("base64");
    fs::write(Path::new(&dir).join(format!("{name}.png")), picture).expect("written");
}
