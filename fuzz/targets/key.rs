//! `cargo xtask fuzz key`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| latchkey_fuzz::key::run(data));
