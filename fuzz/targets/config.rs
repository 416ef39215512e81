//! `cargo xtask fuzz config`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| latchkey_fuzz::config::run(data));
