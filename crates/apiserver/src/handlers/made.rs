//! Values that are slow to compute and the same for everybody: computed once, on a blocking thread.
//!
//! ```text
//! request ──> made? ──yes──> answer
//!                └──no───> a blocking thread makes it, in turn; the request waits without a thread
//! ```
//!
//! Users and administrators have a turn each, one thing at a time: what many catalogues have to say is not made for all of them
//! at once, and no administrator waits for what users want first.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

use crate::status::ApiError;

/// Whose turn something is made in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    User,
    Administrator,
}

pub(super) static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// Ends when what was begun is made, or will not be.
type Begun = Shared<BoxFuture<'static, ()>>;

/// One such thing.
#[derive(Debug)]
pub(super) struct Made<T> {
    made: Arc<OnceLock<T>>,
    begun: [Mutex<Option<Begun>>; 2],
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self { made: Arc::default(), begun: [const { Mutex::new(None) }; 2] }
    }
}

impl<T: Clone + Send + Sync + 'static> Made<T> {
    /// It, which is made by `make` unless it is there. `make` returns nothing where nobody wants it any more.
    pub(super) async fn get(
        &self,
        turn: Turn,
        make: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        if let Some(made) = self.made.get() {
            return Ok(made.clone());
        }
        self.begin(turn, make).await;
        let failed = || ApiError::Internal("the description of the API could not be made".to_owned());
        self.made.get().cloned().ok_or_else(failed)
    }

    /// What was begun goes on when those go who asked for it; what failed is begun again.
    fn begin(&self, turn: Turn, make: impl FnOnce() -> Option<T> + Send + 'static) -> Begun {
        let mut begun = self.begun[turn as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = begun.as_ref().filter(|begun| begun.peek().is_none()) {
            return begun.clone();
        }
        let made = Arc::clone(&self.made);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = TURNS[turn as usize].lock().unwrap_or_else(PoisonError::into_inner);
            if made.get().is_none()
                && let Some(new) = make()
            {
                // Somebody else in the other turn may have been faster, with the same.
                let _ = made.set(new);
            }
        });
        let new = work.map(drop).boxed().shared();
        *begun = Some(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn administrators_do_not_wait_for_the_turn_of_users() {
        let made = Made::default();
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            let _turn = TURNS[Turn::User as usize].lock().unwrap_or_else(PoisonError::into_inner);
            taken.send(()).unwrap();
            is_done.recv().unwrap();
        });
        is_taken.recv().unwrap();
        let mut user = Box::pin(made.get(Turn::User, || Some("theirs")));
        assert!(futures::poll!(&mut user).is_pending());
        assert_eq!(made.get(Turn::Administrator, || Some("ours")).await, Ok("ours"));
        done.send(()).unwrap();
        before.join().unwrap();
        assert_eq!(user.await, Ok("ours"), "it is made once");
    }

    #[tokio::test]
    async fn what_could_not_be_made_is_begun_again() {
        let made: Made<u8> = Made::default();
        assert!(made.get(Turn::User, || panic!("as a bug would")).await.is_err());
        assert!(made.get(Turn::User, || None).await.is_err());
        assert_eq!(made.get(Turn::User, || Some(1)).await, Ok(1));
        assert_eq!(made.get(Turn::User, || Some(2)).await, Ok(1));
    }
}
