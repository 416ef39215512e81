//! `latchkey check`: each finding is made by one change of `deploy/envoy.yaml`, and no other is.

mod bootstrap;
mod cases;
mod documentation;
mod near;
mod process;
mod told;
