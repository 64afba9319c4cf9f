//! Faults of watches. The server sends each event as one chunk of the body.

use std::convert::Infallible;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{StreamExt, stream};
use tokio::sync::watch;

use crate::{
    faults::{ActiveFault, Effect, malformed},
    server::Server,
};

/// A watch that ends or stops sending events, because of a fault.
struct FaultyWatch {
    events: BodyDataStream,
    fault: ActiveFault,
    dropped: watch::Receiver<u64>,
    has_started: bool,
    /// Events to pass before the fault takes effect.
    remaining: usize,
    has_ended: bool,
}

enum Step {
    Send(Bytes),
    End,
}

/// Applies a fault to a watch. The fault may start while the watch is running.
pub(super) fn break_off(server: &Server, body: Body, fault: ActiveFault) -> Body {
    let remaining = match fault.effect {
        Effect::DropWatch { after }
        | Effect::TruncatedEvent { after }
        | Effect::SilentWatch { after } => after,
        _ => usize::MAX,
    };
    let dropped = server.watches_dropped.subscribe();
    let watch = FaultyWatch {
        events: body.into_data_stream(),
        fault,
        dropped,
        has_started: false,
        remaining,
        has_ended: false,
    };
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        match watch.next().await {
            Step::Send(chunk) => Some((Ok::<_, Infallible>(chunk), watch)),
            Step::End => None,
        }
    }))
}

impl FaultyWatch {
    async fn next(&mut self) -> Step {
        if self.has_ended {
            return Step::End;
        }
        if !self.has_started {
            let window = self.fault.window.clone();
            tokio::select! {
                biased;
                () = window.wait_for_start() => self.has_started = true,
                event = self.event() => return event,
            }
        }
        if self.fault.window.is_over() {
            return self.event().await;
        }
        match self.fault.effect {
            Effect::DropWatch { .. } if self.remaining == 0 => Step::End,
            Effect::SilentWatch { .. } if self.remaining == 0 => self.stay_silent().await,
            Effect::TruncatedEvent { .. } if self.remaining == 0 => self.truncated_event().await,
            _ => {
                self.remaining = self.remaining.saturating_sub(1);
                self.event().await
            }
        }
    }

    async fn event(&mut self) -> Step {
        match self.events.next().await {
            Some(Ok(event)) => Step::Send(event),
            _ => Step::End,
        }
    }

    async fn truncated_event(&mut self) -> Step {
        let event = self.event().await;
        let (Step::Send(event), false) = (&event, self.fault.window.is_over()) else {
            return event;
        };
        self.has_ended = true;
        Step::Send(event.slice(..event.len() / 2))
    }

    /// Sends nothing until the fault ends or the server stops.
    async fn stay_silent(&mut self) -> Step {
        self.events = Body::empty().into_data_stream();
        tokio::select! {
            () = self.fault.window.wait_for_end() => {}
            _ = self.dropped.changed() => {}
        }
        Step::End
    }
}

/// Corrupts the objects of all events.
pub(super) fn corrupt(body: Body, effect: Effect) -> Body {
    Body::from_stream(
        body.into_data_stream().map(move |event| event.map(|event| corrupt_event(event, &effect))),
    )
}

fn corrupt_event(event: Bytes, effect: &Effect) -> Bytes {
    let Effect::Malformed { object, pointer, value } = effect else { return event };
    let Ok(mut decoded) = serde_json::from_slice(&event) else { return event };
    malformed::corrupt(&mut decoded, object, pointer, value);
    let mut line = decoded.to_string();
    line.push('\n');
    line.into()
}
