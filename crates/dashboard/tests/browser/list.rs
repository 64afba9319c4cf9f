//! The table of the list: its columns, and the focus on its rows.

use hpa_tests::harness::TestbedExt;
use serde_json::json;

use crate::{
    LOADED, assert_no_errors,
    chromium::{Tab, find_program},
    cluster::{Cluster, autoscaler_without_pods},
};

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
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    for width in [1400, 1240, 1100] {
        tab.set_appearance(width, 900, "light").await;
        assert_eq!(tab.evaluate(TOO_WIDE).await, json!([]), "{width}");
        let overflow = "document.documentElement.scrollWidth > innerWidth";
        assert_eq!(tab.evaluate(overflow).await, false, "{width}");
    }
    assert_no_errors(&tab);
}

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
