//! Work that takes long, beside the tasks of a runtime: modules say how much there is to read, and the threads of the runtime serve the
//! API as well.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

/// Does it here and now, while another thread takes over what this one would have done.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => block_in_place(work),
        // Of one thread, or none.
        _ => work(),
    }
}
