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
mod forecast;
mod list;
mod stream;

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use hpa_controller::k8s::{ClientLimits, Clients};
use hpa_dashboard::{Dashboard, Options};
use hpa_tests::harness::{NAMESPACE, TestbedExt, are_long_tests_enabled};
use serde_json::json;

use self::{
    chromium::{Tab, find_program},
    cluster::{Cluster, autoscaler_without_pods},
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

async fn shown_names(tab: &mut Tab) -> Vec<String> {
    let names = "[...document.querySelectorAll('#autoscalers tbody th.name')].map((cell) => cell.textContent)";
    let names = tab.evaluate(names).await;
    let names = names.as_array().expect("names").iter();
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
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

#[tokio::test]
async fn list_can_be_used_by_keyboard_and_shows_changes() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(30).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, "document.querySelectorAll('#autoscalers tbody tr').length === 31")
        .await;
    assert_eq!(tab.evaluate("location.search").await, "", "the token is not in the history");
    assert_eq!(text(&mut tab, "count").await, "31 autoscalers");
    let first = tab.evaluate("document.querySelector('#autoscalers .badge').textContent").await;
    assert_eq!(first, "✕Failing", "the most urgent state comes first");
    // Filter the list.
    tab.press("/").await;
    for key in ["w", "e", "b"] {
        tab.press(key).await;
    }
    tab.wait_for("document.querySelectorAll('#autoscalers tbody tr').length === 1").await;
    assert_eq!(shown_names(&mut tab).await, ["web"]);
    assert_eq!(text(&mut tab, "count").await, "1 autoscaler of 31");
    assert_eq!(tab.evaluate("location.search").await, "?filter=web");
    // Open the autoscaler, then go back to the filtered list.
    let focus = "document.querySelector('#autoscalers a').focus()";
    tab.evaluate(focus).await;
    tab.press("Enter").await;
    tab.wait_for(EXPLAINED).await;
    assert_eq!(tab.evaluate("document.activeElement.id").await, "detail-title");
    assert_eq!(tab.evaluate("document.title").await, "shop/web - Autoscalers");
    tab.evaluate("history.back()").await;
    tab.wait_for("!document.getElementById('list').hidden").await;
    assert_eq!(shown_names(&mut tab).await, ["web"]);
    // Clear the filter, and sort by name in both orders.
    set_filter(&mut tab, "").await;
    for order in ["ascending", "descending"] {
        tab.evaluate("document.querySelector('#columns .name button').click()").await;
        let sort = "document.querySelector('#columns .name').getAttribute('aria-sort')";
        assert_eq!(tab.evaluate(sort).await, order);
    }
    let names = shown_names(&mut tab).await;
    assert_eq!(names[0], "worker-27", "numbers in names are compared as numbers");
    // Sort by a number, which first puts the largest one at the top.
    for (order, replicas) in [("descending", "13"), ("ascending", "2")] {
        tab.evaluate("document.querySelector('#columns .replicas button').click()").await;
        let sort = "document.querySelector('#columns .replicas').getAttribute('aria-sort')";
        assert_eq!(tab.evaluate(sort).await, order);
        let first = "document.querySelector('#autoscalers td.replicas').textContent.split(' ')[0]";
        assert_eq!(tab.evaluate(first).await, replicas);
    }
    // Add an autoscaler, and delete one.
    cluster.testbed.apply_all([autoscaler_without_pods(100)]);
    tab.wait_for("document.querySelectorAll('#autoscalers tbody tr').length === 32").await;
    cluster
        .testbed
        .delete("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, "web")
        .expect("deleted");
    tab.wait_for("document.querySelectorAll('#autoscalers tbody tr').length === 31").await;
    // Show one state only.
    tab.evaluate("document.querySelector('#states [data-state=failing]').click()").await;
    let states = "[...new Set([...document.querySelectorAll('#autoscalers .badge')]
        .map((badge) => badge.dataset.state))].join()";
    assert_eq!(tab.evaluate(states).await, "failing");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn page_of_an_autoscaler_has_its_decision_and_shows_changes() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    tab.evaluate("document.querySelector('#autoscalers a').click()").await;
    tab.wait_for(EXPLAINED).await;
    let sentence = text(&mut tab, "detail-sentence").await;
    assert!(
        sentence.starts_with("Stays at 5: cpu is at 54% of requests, target 60%"),
        "{sentence}"
    );
    let metrics = text(&mut tab, "metrics").await;
    assert!(metrics.contains("54% of requests"), "{metrics}");
    assert!(metrics.contains("5 pods: 4 counted, 1 ignored"), "{metrics}");
    let limits = text(&mut tab, "limits").await;
    assert!(limits.contains("Largest proposal: 5, by cpu"), "{limits}");
    assert!(text(&mut tab, "changes").await.contains("Scales to "));
    assert!(text(&mut tab, "events").await.contains("New size: 5"));
    assert!(text(&mut tab, "missing").await.contains("Only the controller knows past"));
    let label = "document.querySelector('#replicas-chart svg').getAttribute('aria-label')";
    let label = tab.evaluate(label).await;
    let label = label.as_str().expect("a label").to_owned();
    assert!(label.contains("maximum is 10") && label.contains("current is 5"), "{label}");
    // Moving the pointer over a chart must not cause an error.
    let moved = json!({ "type": "mouseMoved", "x": 200, "y": 500 });
    tab.call("Input.dispatchMouseEvent", moved).await;
    // Change the metrics, then delete the autoscaler and create it again.
    cluster.metrics.set_cpu_percent(90);
    let mut web = cluster.testbed.hpa("web").expect("the autoscaler");
    web["status"]["desiredReplicas"] = json!(6);
    cluster.testbed.apply_all([web.clone()]);
    tab.wait_for(
        "document.getElementById('detail-sentence').textContent.startsWith('Scales from 5 to 6')",
    )
    .await;
    cluster
        .testbed
        .delete("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, "web")
        .expect("deleted");
    tab.wait_for("document.getElementById('detail-sentence').textContent.includes('There is no autoscaler web in ')")
        .await;
    cluster.testbed.apply_all([web]);
    tab.wait_for("document.querySelectorAll('#metrics tbody tr').length > 4").await;
    assert_no_errors(&tab);
}

/// Whether the messages of all events are within the visible part of their table.
const HAS_VISIBLE_MESSAGES: &str =
    "[...document.querySelectorAll('#events tbody tr')].every((row) =>
    row.lastChild.getBoundingClientRect().right
        <= document.querySelector('#events .scroll').getBoundingClientRect().right + 1)";
/// The number of lines of the shortest reason.
const REASON_LINES: &str =
    "Math.min(...[...document.querySelectorAll('#events tbody td:nth-child(3)')]
    .map((cell) => { const range = document.createRange(); range.selectNodeContents(cell);
        return range.getClientRects().length; }))";

#[tokio::test]
async fn event_with_long_words_does_not_hide_the_messages() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    cluster.add_event_with_long_words(5000);
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let origin = cluster.origin();
    let ready = "document.querySelectorAll('#events tbody tr').length === 2";
    tab.open(&format!("{origin}/?autoscaler={NAMESPACE}/web"), ready).await;
    let events = text(&mut tab, "events").await;
    assert!(events.contains("\\u{1b}\\u{202e}xxx") && events.contains("short"), "{events}");
    for width in [1280, 768, 400] {
        tab.set_appearance(width, 900, "light").await;
        assert_eq!(tab.evaluate(HAS_VISIBLE_MESSAGES).await, true, "{width}: {events}");
        assert_eq!(tab.evaluate(REASON_LINES).await, 1, "SuccessfulRescale is in one line");
    }
    assert_no_errors(&tab);
}

#[tokio::test]
async fn unread_events_and_decision_are_shown_as_not_known() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    cluster.forbid("pods");
    cluster.forbid("events");
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let origin = cluster.origin();
    tab.open(&format!("{origin}/?autoscaler=core/{NAMESPACE}/web"), DECIDED).await;
    let events = text(&mut tab, "events").await;
    assert_eq!(events, "Not known: the events have not been read.");
    let facts = text(&mut tab, "facts").await;
    assert!(facts.contains("not known"), "{facts}");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn address_without_an_api_means_the_core_api() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let origin = cluster.origin();
    tab.open(&format!("{origin}/?autoscaler={NAMESPACE}/web"), EXPLAINED).await;
    assert_eq!(text(&mut tab, "detail-title").await, format!("{NAMESPACE}/web"));
    let refused = "document.getElementById('detail-sentence').textContent
        .includes('core/NAMESPACE/NAME')";
    tab.open(&format!("{origin}/?autoscaler=web"), refused).await;
    assert_eq!(text(&mut tab, "detail-title").await, "web");
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
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let drawn = tab.evaluate(CHART_WITH_FUTURE_SAMPLE).await;
    let line: Vec<f64> =
        drawn[0].as_array().expect("a line").iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(line.len() > 2 && line.is_sorted(), "{drawn}");
    assert_eq!(line.last().copied(), drawn[1].as_f64(), "the line ends at the right edge");
}

#[tokio::test]
async fn replicas_of_a_missing_target_are_shown_as_unknown() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut lost = autoscaler_without_pods(0);
    lost["metadata"]["name"] = json!("lost");
    lost["status"] = json!({
        "currentReplicas": 0, "desiredReplicas": 0,
        "conditions": [{ "type": "AbleToScale", "status": "False", "reason": "FailedGetScale",
            "message": "the HPA controller was unable to get the target's current scale" }],
    });
    cluster.testbed.apply_all([lost]);
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let cell = "[...document.querySelectorAll('#autoscalers tbody tr')]
        .find((line) => line.querySelector('th').textContent === 'lost')
        .querySelector('.replicas').textContent";
    tab.wait_for(&format!("{cell} !== ''")).await;
    assert_eq!(tab.evaluate(cell).await, "unknown (2 to 20)");
}

#[tokio::test]
async fn list_of_five_thousand_has_only_rows_near_the_window() {
    const COUNT: usize = 5000;
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(COUNT - 1).await;
    let mut tab = Tab::new(&program).await;
    // The first load includes the dashboard's own first list. The second load is measured.
    let loaded = format!("document.getElementById('count').textContent === '{COUNT} autoscalers'");
    tab.open(&cluster.url, &loaded).await;
    tab.open(cluster.origin(), &loaded).await;
    let painted = "new Promise((resolve) => requestAnimationFrame(() =>
        requestAnimationFrame(() => resolve(performance.now()))))";
    let milliseconds = tab.evaluate(painted).await.as_f64().expect("a number");
    let rows = "document.querySelectorAll('#autoscalers tbody tr').length";
    let first = tab.evaluate(rows).await.as_u64().expect("a number");
    assert!((40..1000).contains(&first), "only rows near the window exist: {first}");
    let frames = tab.evaluate(SCROLL).await;
    println!("{COUNT} autoscalers: shown after {milliseconds:.0} ms; while scrolling: {frames}");
    let last = "[...document.querySelectorAll('#autoscalers tbody tr')].at(-1)
        .getAttribute('aria-rowindex')";
    tab.evaluate("scrollTo(0, document.documentElement.scrollHeight)").await;
    tab.wait_for(&format!("{last} === '{}'", COUNT + 1)).await;
    tab.evaluate("dispatchEvent(new Event('beforeprint'))").await;
    assert_eq!(tab.evaluate(rows).await, COUNT, "on paper, all rows exist");
    if are_long_tests_enabled() {
        assert!(milliseconds < 2000.0, "{milliseconds}");
    }
    assert_no_errors(&tab);
}

/// Scrolls through the list in two seconds. Returns the number of frames, and the median, the 95th
/// percentile and the maximum of the times between them.
const SCROLL: &str = "new Promise((resolve) => {
    const times = [];
    const start = performance.now();
    const height = document.documentElement.scrollHeight - innerHeight;
    const step = (now) => {
        times.push(performance.now());
        const share = (now - start) / 2000;
        scrollTo(0, height * Math.min(1, share));
        if (share < 1) return requestAnimationFrame(step);
        const gaps = times.slice(1).map((time, index) => time - times[index]);
        gaps.sort((a, b) => a - b);
        const of = (share) => Math.round(gaps[Math.floor((gaps.length - 1) * share)]);
        resolve(`${gaps.length} frames, median ${of(0.5)} ms, p95 ${of(0.95)} ms, max ${of(1)} ms`);
    };
    requestAnimationFrame(step);
})";

/// Runs axe, and returns the serious violations of accessibility rules. The content security policy
/// doesn't apply to scripts that the `DevTools` protocol evaluates.
async fn violations(tab: &mut Tab, axe: &str) -> Vec<String> {
    tab.evaluate(&format!("{axe}; true")).await;
    let run = "axe.run(document, { resultTypes: ['violations'] }).then((result) =>
        result.violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
            .map(({ id, help, nodes }) => `${id}: ${help}: `
                + nodes.slice(0, 3).map(({ html, failureSummary }) => html + failureSummary).join()))";
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
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(5).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
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
