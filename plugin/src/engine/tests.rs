//! The engine by hand: each reply of the state and each answer of the upstream is made here.

mod attached;
mod batches;
mod bounds;
mod claims;
mod endings;
mod fixture;
mod forwarding;
mod leases;
mod lifecycle;
mod properties;
mod refusals;
mod replies;
mod settlements;
mod waiting;
