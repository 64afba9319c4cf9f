//! Streams that end, and the time of the values that the page still shows.

use crate::{STATE, chromium::Tab, open_list, text};

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
async fn values_of_a_stopped_server_have_their_age_when_the_tab_is_shown_again() {
    let Some((cluster, mut tab)) = open_list(0).await else { return };
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
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    tab.evaluate(REFUSE_STREAMS).await;
    tab.evaluate("document.querySelector('#autoscalers a').click()").await;
    tab.wait_for(&format!("{STATE} === 'lost'")).await;
    tab.evaluate("history.back()").await;
    tab.wait_for(&format!("{STATE} === 'live'")).await;
}
