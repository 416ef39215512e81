//! What the transitions are held to: every cell of the table, every rule round it, every run
//! that once went wrong, random histories, and an exhaustive model of a small world.

mod claim_table;
mod fixture;
mod model;
mod operator_table;
mod properties;
mod retention;
mod rules;
mod sender;
mod settle_table;
mod suspicion;
mod traces;
