//! Work that waits for the disk, for a program, or that takes long, beside the tasks of a runtime: the threads of the runtime serve the API
//! as well.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::{block_in_place, spawn_blocking},
};

/// Does work on a thread where it keeps nobody else waiting.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Does work that borrows, or that is called where nothing can be awaited, on this thread, while another one takes over its tasks.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => block_in_place(work),
        // Of one thread, or none.
        _ => work(),
    }
}
