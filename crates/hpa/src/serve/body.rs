//! Response bodies.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::connections::LongResponse;

/// Bytes per frame. hyper takes the next frame only after it has sent most of the ones before, so
/// that a response lasts until its client has read it.
const FRAME_BYTES: usize = 64 << 10;

/// A text.
pub(crate) struct Text {
    rest: Bytes,
    /// Ends with this body.
    _response: Option<LongResponse>,
}

impl Text {
    pub(crate) fn new(text: impl Into<Bytes>, response: Option<LongResponse>) -> Self {
        Self { rest: text.into(), _response: response }
    }
}

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(FRAME_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}
