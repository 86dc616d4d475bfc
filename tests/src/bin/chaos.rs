//! Runs workers under faults and checks what they tell; see `tests/chaos`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockrt_tests::chaos::main()
}
