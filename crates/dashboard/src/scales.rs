//! Reads the scales that rows of the list need for their sentences, while a page shows the list.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_controller::scale_target::TargetReader;
use jiff::SignedDuration;
use tokio::time::sleep;

use crate::{cluster::Cluster, model::Board};

/// The maximum number of scales that are read after one search.
const MAX_SCALES: usize = 100;
/// Time between two searches for rows that need a scale.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// A scale is read again after this time at the earliest. A row therefore costs at most four
/// requests a minute for the scale. If the target lacks pods, it costs four more for the target.
const MIN_AGE: SignedDuration = SignedDuration::from_secs(15);
/// A page that opens doesn't show an older scale: nothing was read while no page was open.
pub(crate) const MAX_AGE: SignedDuration = SignedDuration::from_secs(30);

/// Reads scales that are missing or old, and sets them on the board. Runs forever.
pub(crate) async fn keep_up_to_date(cluster: Arc<Cluster>, board: Arc<Board>) {
    loop {
        board.wait_for_viewer().await;
        board.wait_until_up().await;
        board.wait_until_read().await;
        let since = cluster.options.clock.now().saturating_sub(MIN_AGE);
        let due = board.without_recent_scale(MAX_SCALES, since.unwrap_or_default());
        let targets = &cluster.targets;
        let reads =
            due.into_iter().map(|(id, hpa)| async move { (id, targets.target_pods(&hpa).await) });
        let reads = stream::iter(reads).buffer_unordered(TargetReader::MAX_CONCURRENT_READS);
        let scales: Vec<_> = reads.collect().await;
        // During an outage, keep the scales that were read before it.
        if !scales.is_empty() && !board.is_down() {
            board.set_scales(scales, cluster.options.clock.now());
        }
        sleep(SEARCH_INTERVAL).await;
    }
}
