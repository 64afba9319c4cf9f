//! Reads the scales that rows of the list need, while a page shows the list.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, MAX_CONCURRENT_READS},
    model::Board,
};

/// At most this many scales are read at a time, those first that were not read for longest.
const MAX_SCALES: usize = 100;
/// Time between two searches for rows that need a scale.
const INTERVAL: Duration = Duration::from_secs(5);
/// A scale is used for at least this time, so that a row costs at most four requests a minute.
const MIN_AGE: SignedDuration = SignedDuration::from_secs(15);

pub(crate) async fn follow(cluster: Arc<Cluster>, board: Arc<Board>) {
    loop {
        board.is_shown().await;
        board.up().await;
        board.synced().await;
        let before = cluster.clock.now().saturating_sub(MIN_AGE);
        let wanted = board.without_scale(MAX_SCALES, before.unwrap_or_default());
        let reads = wanted.into_iter().map(|(id, hpa)| {
            let cluster = &cluster;
            async move { (id, cluster.target(&hpa).await.ok().map(|target| target.scale)) }
        });
        let scales: Vec<_> =
            stream::iter(reads).buffer_unordered(MAX_CONCURRENT_READS).collect().await;
        // During an outage, the last ones stay.
        if !scales.is_empty() && !board.is_down() {
            board.set_scales(scales, cluster.clock.now());
        }
        sleep(INTERVAL).await;
    }
}
