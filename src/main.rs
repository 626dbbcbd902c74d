//! Arguments → configuration → supervision → exit status; nothing else.
fn main() {}
