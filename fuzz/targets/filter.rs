//! `cargo xtask fuzz filter`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| latchkey_fuzz::filter::run(data));
