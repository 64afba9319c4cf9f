//! The records of the demo's controller, for the dashboard.

use async_trait::async_trait;
use hpa_controller::{HpaKey, debug::DebugView};
use hpa_dashboard::{ControllerRecords, RecordSource};
use jiff::Timestamp;

/// Reads the records from the documents of the debug API, without a request.
pub(super) struct DemoRecordSource(pub(super) DebugView);

#[async_trait]
impl RecordSource for DemoRecordSource {
    async fn records(
        &self,
        autoscaler: &HpaKey,
        _: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        let Some(detail) = self.0.autoscaler(autoscaler, None) else {
            return Ok(ControllerRecords::default());
        };
        let mut records = ControllerRecords::from(detail);
        records.samples.retain(|sample| after.is_none_or(|after| sample.at > after));
        Ok(records)
    }
}
