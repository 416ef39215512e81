//! The messages in `src/wire` are made from `proto/`: this test makes them again and compares.
//! `LATCHKEY_UPDATE=1 cargo test -p latchkey-core --test proto` writes what it made.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[test]
fn the_generated_messages_are_those_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("proto");
    let files =
        protox::compile([proto.join("state.proto"), proto.join("record.proto")], [&proto]).unwrap();
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    prost_build::Config::new().out_dir(&out).btree_map(["."]).compile_fds(files).unwrap();
    for (made, kept) in
        [("latchkey.state.v1.rs", "state_v1.rs"), ("latchkey.record.v1.rs", "record_v1.rs")]
    {
        let made = fs::read_to_string(out.join(made)).unwrap();
        // Cross-package paths are written for nested modules; ours are flat.
        let made = made.replace("super::super::state::v1::", "super::state_v1::");
        let kept = root.join("src/wire").join(kept);
        if env::var_os("LATCHKEY_UPDATE").is_some() {
            fs::write(&kept, &made).unwrap();
        }
        assert!(
            fs::read_to_string(&kept).unwrap_or_default() == made,
            "{} is not what proto/ says: run this test with LATCHKEY_UPDATE=1",
            kept.display()
        );
    }
}
