//! The list: its filter and order, its columns and cells, and the focus on its rows.

use hpa_tests::harness::{NAMESPACE, TestbedExt, are_long_tests_enabled};
use serde_json::json;

use crate::{
    EXPLAINED, LOADED, assert_no_errors,
    chromium::{Tab, find_program},
    cluster::{Cluster, autoscaler_without_pods},
    open_list, set_filter, text,
};

async fn shown_names(tab: &mut Tab) -> Vec<String> {
    let names = "[...document.querySelectorAll('#autoscalers tbody th.name')].map((cell) => \
                 cell.textContent)";
    let names = tab.evaluate(names).await;
    let names = names.as_array().expect("names").iter();
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
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

/// The states whose badge is wider than the column.
const TOO_WIDE: &str = "Promise.all([import('/list.js'), import('/format.js')])
    .then(([{ badge }, { STATES }]) => {
        const cell = document.querySelector('#autoscalers td.state');
        return Object.keys(STATES).filter((state) => {
            cell.replaceChildren(badge(state));
            const { right } = cell.firstChild.getBoundingClientRect();
            return right > cell.getBoundingClientRect().right + 1;
        });
    })";

#[tokio::test]
async fn columns_fit_their_states_and_the_window() {
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    for width in [1400, 1240, 1100] {
        tab.set_appearance(width, 900, "light").await;
        assert_eq!(tab.evaluate(TOO_WIDE).await, json!([]), "{width}");
        let overflow = "document.documentElement.scrollWidth > innerWidth";
        assert_eq!(tab.evaluate(overflow).await, false, "{width}");
    }
    assert_no_errors(&tab);
}

#[tokio::test]
async fn missing_time_of_the_last_scaling_is_named() {
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    let unscaled = "import('/list.js').then((list) => list.lastScaled({ lastScale: null }, 0))";
    assert_eq!(tab.evaluate(unscaled).await, "not recorded");
}

/// A long list creates its rows in blocks of 40 (`blocks.js`). A new first row moves the last row
/// of the first block to the second one.
#[tokio::test]
async fn row_keeps_the_focus_when_it_moves_to_another_block() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(59).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, "document.getElementById('count').textContent === '60 autoscalers'")
        .await;
    tab.evaluate("document.querySelector('#columns .name button').click()").await;
    tab.evaluate(
        "document.querySelector('#autoscalers tbody').lastChild.querySelector('a').focus()",
    )
    .await;
    let rows = "document.querySelectorAll('#autoscalers tbody tr').length";
    tab.wait_for(&format!("{rows} === 60")).await;
    let row = "document.activeElement.closest('tr')?.getAttribute('aria-rowindex')";
    assert_eq!(tab.evaluate(row).await, "41");
    let mut first = autoscaler_without_pods(0);
    first["metadata"]["name"] = json!("a");
    cluster.testbed.apply_all([first]);
    tab.wait_for(&format!("{rows} === 61")).await;
    assert_eq!(tab.evaluate(row).await, "42");
    assert_no_errors(&tab);
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
