//! The page of an autoscaler in special cases: with a forecast, with an inactive controller, and
//! absent. Also line breaks in settings.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_controller::{
    HpaKey,
    forecast::{ForecastPoint, ForecastView, LoadReading, Yesterday},
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, Options, PastDecision,
    RecordSource,
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    EXPLAINED, LOADED, assert_no_errors,
    chromium::{Tab, find_program},
    cluster::Cluster,
    set_filter, text,
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
        yesterday: Some(Yesterday { compared: 144, covered: 0.9, error: 0.1 }),
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
async fn page_of_an_absent_autoscaler_has_no_panels() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
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
async fn missing_time_is_named_and_settings_break_after_separators() {
    let Some(program) = find_program() else { return };
    let cluster = Cluster::new(0).await;
    let mut tab = Tab::new(&program).await;
    tab.open(&cluster.url, LOADED).await;
    let unscaled = "import('/list.js').then((list) => list.lastScaled({ lastScale: null }, 0))";
    assert_eq!(tab.evaluate(unscaled).await, "not recorded");
    let parts = "import('/dom.js').then(({ breakable }) => breakable('forecast=scale')
        .filter((part) => typeof part === 'string').join('|'))";
    assert_eq!(tab.evaluate(parts).await, "forecast=|scale");
}
