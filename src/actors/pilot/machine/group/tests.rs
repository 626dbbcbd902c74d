//! Stories of each strategy, and every interleaving of a group of three with the jobs' own lifecycle.

mod explore;
mod stories;
