//! Processes that never outlive the test or demo that started them.
//!
//! Three ways out, each covered. A [`Process`] that is dropped is killed; that is the ordinary
//! end, and a panic's. A demo that is interrupted drops all it holds. And for a program that ends
//! without dropping anything (Ctrl-C in a test, `kill -9`), a watchdog holds the other end of a
//! pipe: when the pipe closes, by whatever end, it kills what is left and removes the folder.
//!
//! Every child leads a process group of its own, so that a Ctrl-C at the terminal reaches only
//! the program that started it, which then ends them in its own order.

mod process;
mod watchdog;

pub use process::Process;
pub use watchdog::Watchdog;
