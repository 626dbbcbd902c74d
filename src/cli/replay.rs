//! `replay`: runs the machines of a record again, and says whether they decide as they did then.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::{CommandError, output};
use crate::reason::reason;
use crate::replay;

/// Replays a record; a difference is an error.
pub fn run(path: &Path) -> Result<(), CommandError> {
    let name = path.display();
    let file = File::open(path)
        .map_err(|error| CommandError::new(format!("cannot read {name}: {}", reason(&error))))?;
    let summary = replay::run(BufReader::new(file))
        .map_err(|failure| CommandError::new(format!("{name}: {failure}")))?;
    Ok(output::print(&format!("{summary}\n"))?)
}
