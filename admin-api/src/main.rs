//! The `latchkey` binary. Everything is in the library, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_admin_api::main()
}
