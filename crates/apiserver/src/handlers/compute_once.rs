//! Values that are slow to compute and shared by all requests: computed once, on a blocking thread.
//!
//! ```text
//! request ──> computed? ──yes──> response
//!                 └──────no───> computed by a blocking thread, one value at a time; the request waits without a thread
//! ```
//!
//! Users and administrators have a queue each, which computes one value at a time: no administrator waits behind users.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

use crate::status::ApiError;

/// The queue in which a value is computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queue {
    User,
    Administrator,
}

pub(super) static QUEUES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// Completes when the computation has ended, with a value or without.
type Running = Shared<BoxFuture<'static, ()>>;

/// A value that is computed once.
#[derive(Debug)]
pub(super) struct ComputedOnce<T> {
    value: Arc<OnceLock<T>>,
    running: [Mutex<Option<Running>>; 2],
}

impl<T> Default for ComputedOnce<T> {
    fn default() -> Self {
        Self { value: Arc::default(), running: [const { Mutex::new(None) }; 2] }
    }
}

impl<T: Clone + Send + Sync + 'static> ComputedOnce<T> {
    /// The value, computed by `compute` if it is not there yet; `compute` returns `None` where the value is obsolete.
    pub(super) async fn get(
        &self,
        queue: Queue,
        compute: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        if let Some(value) = self.value.get() {
            return Ok(value.clone());
        }
        self.start(queue, compute).await;
        let failed = || ApiError::Internal("the description of the API could not be computed".to_owned());
        self.value.get().cloned().ok_or_else(failed)
    }

    /// Starts the computation, or joins the running one. It goes on when the requests that wait for it are gone.
    fn start(&self, queue: Queue, compute: impl FnOnce() -> Option<T> + Send + 'static) -> Running {
        let mut running = self.running[queue as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref().filter(|running| running.peek().is_none()) {
            return running.clone();
        }
        let value = Arc::clone(&self.value);
        let work = tokio::task::spawn_blocking(move || {
            let _queue = QUEUES[queue as usize].lock().unwrap_or_else(PoisonError::into_inner);
            if value.get().is_none()
                && let Some(new) = compute()
            {
                // The other queue may have been faster, with the same value.
                let _ = value.set(new);
            }
        });
        let new = work.map(drop).boxed().shared();
        *running = Some(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn administrators_do_not_wait_for_the_queue_of_users() {
        let value = ComputedOnce::default();
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            let _queue = QUEUES[Queue::User as usize].lock().unwrap_or_else(PoisonError::into_inner);
            taken.send(()).unwrap();
            is_done.recv().unwrap();
        });
        is_taken.recv().unwrap();
        let mut user = Box::pin(value.get(Queue::User, || Some("theirs")));
        assert!(futures::poll!(&mut user).is_pending());
        assert_eq!(value.get(Queue::Administrator, || Some("ours")).await, Ok("ours"));
        done.send(()).unwrap();
        before.join().unwrap();
        assert_eq!(user.await, Ok("ours"), "it is computed once");
    }

    #[tokio::test]
    async fn a_failed_computation_is_repeated() {
        let value: ComputedOnce<u8> = ComputedOnce::default();
        assert!(value.get(Queue::User, || panic!("as a bug would")).await.is_err());
        assert!(value.get(Queue::User, || None).await.is_err());
        assert_eq!(value.get(Queue::User, || Some(1)).await, Ok(1));
        assert_eq!(value.get(Queue::User, || Some(2)).await, Ok(1));
    }
}
