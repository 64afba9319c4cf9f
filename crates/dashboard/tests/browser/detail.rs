//! The page of an autoscaler, also with a forecast, with an inactive controller, and without the
//! autoscaler.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_controller::{
    HpaKey,
    forecast::{ForecastPoint, ForecastView, LoadReading, PastDayAccuracy},
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, Options, PastDecision,
    RecordSource,
};
use hpa_tests::harness::{NAMESPACE, TestbedExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    DECIDED, EXPLAINED, LOADED, assert_no_errors,
    chromium::{Tab, find_program},
    cluster::Cluster,
    open_list, set_filter, text,
};

/// A controller that forecasts the load of the first metric, three minutes ahead.
struct Forecaster {
    decision_age: SignedDuration,
}

#[async_trait]
impl RecordSource for Forecaster {
    async fn records(
        &self,
        _: &HpaKey,
        _: Option<&str>,
        _: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        let now = Timestamp::now();
        let until = now - self.decision_age;
        let decision = PastDecision {
            from: until,
            until,
            current: Some(5),
            scaled_to: None,
            sentence: "stays".to_owned(),
        };
        Ok(ControllerRecords {
            decisions: vec![decision],
            forecasts: vec![forecast(now)],
            ..ControllerRecords::default()
        })
    }

    async fn activity(
        &self,
        _: &[AutoscalerStatusWriter],
        limit: SignedDuration,
    ) -> ControllerActivity {
        let is_inactive = self.decision_age > limit;
        let inactivity = is_inactive.then(|| "No controller makes decisions.".to_owned());
        ControllerActivity { inactivity, ..ControllerActivity::default() }
    }
}

fn forecast(now: Timestamp) -> ForecastView {
    let points = |first: i32, step: i32| -> Vec<_> {
        let minutes = (first..=3).filter(|minute| (minute - 3) % step == 0);
        minutes.map(|minute| point(now, minute)).collect()
    };
    ForecastView {
        index: 0,
        metric: "cpu".to_owned(),
        reason: Some("Forecasting".to_owned()),
        text: Some("half of the overload".to_owned()),
        checked_at: Some(now),
        season: Some("daily".to_owned()),
        is_smoothed: false,
        horizon_seconds: 180,
        quantile: 0.8,
        load_per_replica: Some(0.06),
        overload_minutes: None,
        yesterday: Some(PastDayAccuracy { compared: 144, covered: 0.9, error: 0.1 }),
        points: points(-1440, 10),
        recent: points(-57, 1),
        read: Some(LoadReading { at: now, load: 1.26 }),
        unit: Some("cores".to_owned()),
    }
}

/// A point of a load that has been rising for the last ten minutes.
fn point(now: Timestamp, minute: i32) -> ForecastPoint {
    let forecast = 0.3 + 0.09 * f64::from((minute + 10).max(0));
    ForecastPoint {
        at: now + SignedDuration::from_mins(minute.into()),
        load: (minute < -1).then_some(forecast - 0.05),
        forecast,
        days: 14,
        low: forecast * 0.8,
        high: forecast * 1.2,
    }
}

/// Opens the page of `shop/web`. `decision_age` is the age of the controller's last decision.
async fn open_detail(tab: &mut Tab, decision_age: SignedDuration) -> Cluster {
    let records: Option<Arc<dyn RecordSource>> = Some(Arc::new(Forecaster { decision_age }));
    let cluster = Cluster::with_options(0, Options { records, ..Options::default() }).await;
    tab.set_appearance(1280, 1000, "light").await;
    tab.open(&cluster.url, LOADED).await;
    tab.evaluate("document.querySelector('#autoscalers a').click()").await;
    tab.wait_for(EXPLAINED).await;
    cluster
}

/// The chart of the last hour, which precedes that of the last day.
const HOUR_CHART: &str = "document.querySelector('#metrics section section svg[role=img]')";

#[tokio::test]
async fn forecast_is_drawn_around_now_with_its_band_and_the_newest_reading() {
    let Some(program) = find_program() else { return };
    let mut tab = Tab::new(&program).await;
    let _cluster = open_detail(&mut tab, SignedDuration::ZERO).await;
    let card = "document.querySelector('#metrics section section')";
    let legend = tab.evaluate(&format!("{card}.querySelector('.legend').textContent")).await;
    let legend = legend.as_str().expect("text");
    assert!(legend.contains("last reading: 1.26 cores"), "{legend}");
    assert!(!legend.contains("none"), "{legend}");
    let described = tab.evaluate(&format!("{HOUR_CHART}.getAttribute('aria-label')")).await;
    let described = described.as_str().expect("text");
    assert!(described.starts_with("Load of cpu in cores and its forecast: "), "{described}");
    assert!(described.contains("8 of 10 cases is 1.18 cores to 1.76 cores at"), "{described}");
    // The band is a closed area. The chart shows the last 57 minutes and the next three, so now is
    // at 95 % of its width.
    let band = format!("{HOUR_CHART}.querySelector('.area.band').getAttribute('d')");
    assert!(tab.evaluate(&band).await.as_str().is_some_and(|path| path.ends_with('Z')));
    let share = format!(
        "(() => {{ const numbers = (name) => [...{HOUR_CHART}.querySelector(name).getAttribute('d')
            .matchAll(/[MH]([0-9.]+)/g)].map(([, x]) => Number(x));
            const [left, right] = numbers('path.grid');
            return (numbers('path.now')[0] - left) / (right - left); }})()"
    );
    let share = tab.evaluate(&share).await.as_f64().expect("a share");
    assert!((0.93..0.97).contains(&share), "{share}");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn inactive_controller_is_marked_on_the_page_and_in_the_list() {
    let Some(program) = find_program() else { return };
    let mut tab = Tab::new(&program).await;
    let cluster = open_detail(&mut tab, SignedDuration::from_secs(190)).await;
    let state = text(&mut tab, "detail-state").await;
    assert!(state.contains("No decision by the controller for 3m "), "{state}");
    assert_eq!(text(&mut tab, "problems").await, "No controller makes decisions.");
    tab.wait_for("document.body.classList.contains('inactive')").await;
    tab.evaluate("document.querySelector('#back').click()").await;
    tab.wait_for("!document.getElementById('list').hidden").await;
    let steady = "getComputedStyle(document.querySelector('.badge[data-state=steady]')).color
        === getComputedStyle(document.querySelector('.quiet')).color";
    assert_eq!(tab.evaluate(steady).await, true, "the state is not green");
    assert_eq!(text(&mut tab, "problems").await, "No controller makes decisions.");
    cluster.metrics.set_cpu_percent(180);
    tab.evaluate("document.querySelector('#autoscalers a').click()").await;
    let state = "document.getElementById('detail-state').textContent";
    tab.wait_for(&format!("{state}.startsWith('Last reported: ')")).await;
    tab.evaluate("document.querySelector('#back').click()").await;
    tab.wait_for("!document.getElementById('list').hidden").await;
    set_filter(&mut tab, "none").await;
    let problems = text(&mut tab, "problems").await;
    let note = "The filter doesn't apply to these problems: they concern all autoscalers.";
    assert!(problems.ends_with(note), "{problems}");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn page_of_an_autoscaler_has_its_decision_and_shows_changes() {
    let Some((cluster, mut tab)) = open_list(0).await else { return };
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
    tab.wait_for(
        "document.getElementById('detail-sentence').textContent.includes('There is no \
                  autoscaler web in ')",
    )
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
    let Some((cluster, mut tab)) = open_list(0).await else { return };
    let origin = cluster.origin();
    tab.open(&format!("{origin}/?autoscaler={NAMESPACE}/web"), EXPLAINED).await;
    assert_eq!(text(&mut tab, "detail-title").await, format!("{NAMESPACE}/web"));
    let refused = "document.getElementById('detail-sentence').textContent
        .includes('core/NAMESPACE/NAME')";
    tab.open(&format!("{origin}/?autoscaler=web"), refused).await;
    assert_eq!(text(&mut tab, "detail-title").await, "web");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn page_of_an_absent_autoscaler_has_no_panels() {
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    let url = "history.pushState(null, '', '/?autoscaler=core/shop/none');
        dispatchEvent(new PopStateEvent('popstate'))";
    tab.evaluate(url).await;
    tab.wait_for("document.getElementById('detail').classList.contains('absent')").await;
    let sentence = text(&mut tab, "detail-sentence").await;
    assert!(
        sentence.starts_with("There is no autoscaler none in the namespace shop."),
        "{sentence}"
    );
    let visible = "[...document.querySelectorAll('#detail > *')]
        .filter((part) => part.offsetHeight > 0).map((part) => part.tagName).join()";
    assert_eq!(tab.evaluate(visible).await, "P,H1,P");
    assert_no_errors(&tab);
}

#[tokio::test]
async fn settings_break_after_separators() {
    let Some((_cluster, mut tab)) = open_list(0).await else { return };
    let parts = "import('/dom.js').then(({ breakable }) => breakable('forecast=scale')
        .filter((part) => typeof part === 'string').join('|'))";
    assert_eq!(tab.evaluate(parts).await, "forecast=|scale");
}
