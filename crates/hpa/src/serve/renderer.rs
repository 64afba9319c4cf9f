//! Renders long responses, one at a time.

use std::sync::Arc;

use tokio::{
    sync::Mutex,
    task::{JoinError, spawn_blocking},
};

/// Renders long responses on blocking threads. With many autoscalers, rendering takes long and must
/// not block the workers.
#[derive(Default)]
pub(crate) struct Renderer {
    turn: Arc<Mutex<()>>,
}

impl Renderer {
    /// Waits for all earlier renderings, even those whose client is gone, and then renders. Fails
    /// if `render` panics.
    pub(crate) async fn render<T: Send + 'static>(
        &self,
        render: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = self.turn.clone().lock_owned().await;
        spawn_blocking(move || {
            let _turn = turn;
            render()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;

    #[tokio::test]
    async fn one_rendering_runs_at_a_time_even_if_its_client_is_gone() {
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let (finish, finished) = mpsc::channel::<()>();
        let finished = parking_lot::Mutex::new(finished);
        let running = AtomicUsize::new(0);
        let renderer = Arc::new(Renderer::default());
        let text = Arc::new(move || {
            let concurrent = running.fetch_add(1, Ordering::SeqCst) + 1;
            started.send(concurrent).expect("a test");
            finished.lock().recv().expect("a test");
            running.fetch_sub(1, Ordering::SeqCst);
            concurrent.to_string()
        });
        let render = || {
            let (renderer, text) = (renderer.clone(), text.clone());
            tokio::spawn(async move { renderer.render(move || text()).await })
        };
        let abandoned = render();
        assert_eq!(starts.recv().await, Some(1));
        let second = render();
        abandoned.abort();
        assert!(abandoned.await.is_err());
        tokio::task::yield_now().await;
        assert!(starts.try_recv().is_err(), "the second one must wait");
        for _ in 0..2 {
            finish.send(()).expect("a rendering");
        }
        assert_eq!(second.await.expect("a task").expect("a rendering"), "1");
    }
}
