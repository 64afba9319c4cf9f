//! Watches that break. The server sends each event as one piece of the body.

use std::convert::Infallible;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{StreamExt, stream};
use tokio::sync::watch;

use crate::{
    faults::{Active, Effect, malformed},
    server::Server,
};

/// A watch that breaks after some events.
struct Broken {
    events: BodyDataStream,
    fault: Active,
    dropped: watch::Receiver<u64>,
    /// Whether the fault has begun.
    begun: bool,
    /// How many more events it lets pass.
    left: usize,
    ended: bool,
}

/// What becomes of a watch next.
enum Step {
    Send(Bytes),
    End,
}

/// A watch that a fault breaks, which may begin later.
pub(super) fn broken(server: &Server, body: Body, fault: Active) -> Body {
    let left = match fault.effect {
        Effect::DropWatch { after }
        | Effect::HalfEvent { after }
        | Effect::SilentWatch { after } => after,
        _ => usize::MAX,
    };
    let dropped = server.watches_dropped.subscribe();
    let watch = Broken {
        events: body.into_data_stream(),
        fault,
        dropped,
        begun: false,
        left,
        ended: false,
    };
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        match watch.next().await {
            Step::Send(piece) => Some((Ok::<_, Infallible>(piece), watch)),
            Step::End => None,
        }
    }))
}

impl Broken {
    async fn next(&mut self) -> Step {
        if self.ended {
            return Step::End;
        }
        if !self.begun {
            let span = self.fault.span.clone();
            tokio::select! {
                biased;
                () = span.begun() => self.begun = true,
                event = self.event() => return event,
            }
        }
        if self.fault.span.is_over() {
            return self.event().await;
        }
        match self.fault.effect {
            Effect::DropWatch { .. } if self.left == 0 => Step::End,
            Effect::SilentWatch { .. } if self.left == 0 => self.silence().await,
            Effect::HalfEvent { .. } if self.left == 0 => self.half().await,
            _ => {
                self.left = self.left.saturating_sub(1);
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

    async fn half(&mut self) -> Step {
        let event = self.event().await;
        let (Step::Send(event), false) = (&event, self.fault.span.is_over()) else { return event };
        self.ended = true;
        Step::Send(event.slice(..event.len() / 2))
    }

    /// Tells nothing until the fault is over. A server that stops still ends the watch.
    async fn silence(&mut self) -> Step {
        self.events = Body::empty().into_data_stream();
        tokio::select! {
            () = self.fault.span.over() => {}
            _ = self.dropped.changed() => {}
        }
        Step::End
    }
}

/// A watch whose objects have a wrong member.
pub(super) fn malformed(body: Body, effect: Effect) -> Body {
    Body::from_stream(
        body.into_data_stream().map(move |event| event.map(|event| spoiled(event, &effect))),
    )
}

fn spoiled(event: Bytes, effect: &Effect) -> Bytes {
    let Effect::Malformed { object, pointer, value } = effect else { return event };
    let Ok(mut shown) = serde_json::from_slice(&event) else { return event };
    malformed::spoil(&mut shown, object, pointer, value);
    let mut line = shown.to_string();
    line.push('\n');
    line.into()
}
