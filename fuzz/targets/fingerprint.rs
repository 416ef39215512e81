//! `cargo xtask fuzz fingerprint`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| latchkey_fuzz::fingerprint::run(data));
