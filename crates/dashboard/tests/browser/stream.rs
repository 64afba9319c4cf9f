//! Streams that end, and the time of the values that the page still shows.

use crate::{
    LOADED, STATE,
    chromium::{Tab, find_program},
    cluster::Cluster,
    text,
};

/// Makes the page believe that its tab is hidden, or shown again.
async fn set_hidden(tab: &mut Tab, is_hidden: bool) {
    let change = format!(
        "Object.defineProperty(document, 'hidden',
            {{ configurable: true, get: () => {is_hidden} }});
        document.dispatchEvent(new Event('visibilitychange'))"
    );
    tab.evaluate(&change).await;
}

#[tokio::test]
async fn page_shown_again_without_its_server_has_the_time_of_its_values() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    tab.wait_for(&format!("{STATE} === 'live'")).await;
    set_hidden(&mut tab, true).await;
    tab.wait_for(&format!("{STATE} === 'paused'")).await;
    drop(cluster);
    tab.evaluate("Date.now = ((now) => () => now() + 3600_000)(Date.now); true").await;
    set_hidden(&mut tab, false).await;
    tab.wait_for(&format!("{STATE} === 'lost'")).await;
    let age = text(&mut tab, "age").await;
    assert!(age.contains(", 1h ago. If hpa dashboard was started again, "), "{age}");
}

/// Refuses all further streams, as a server does for which too many pages are open.
const REFUSE_STREAMS: &str = "window.EventSource = class {
    static CLOSED = 2;
    readyState = 2;
    constructor() { queueMicrotask(() => this.onerror()); }
    close() {}
}; true";

#[tokio::test]
async fn page_of_an_autoscaler_whose_stream_is_refused_is_not_live() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    tab.evaluate(REFUSE_STREAMS).await;
    tab.evaluate("document.querySelector('#autoscalers a').click()").await;
    tab.wait_for(&format!("{STATE} === 'lost'")).await;
    tab.evaluate("history.back()").await;
    tab.wait_for(&format!("{STATE} === 'live'")).await;
}
