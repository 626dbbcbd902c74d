//! An archive of small files: tar (POSIX ustar), compressed with gzip.
//!
//! The headers are written by hand: the crate `tar` reads archives, too, and brings three more crates; a header of a regular
//! file is one block.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The size of a block.
const BLOCK: usize = 512;
/// The folder that all files are in.
const FOLDER: &str = "containerpilot-report";

/// An archive that is being written.
pub struct Archive {
    encoder: GzEncoder<Vec<u8>>,
    /// The time of all files, in seconds since 1970.
    time: u64,
}

impl Archive {
    /// An empty archive.
    pub fn new(time: SystemTime) -> Self {
        let time = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { encoder: GzEncoder::new(Vec::new(), Compression::default()), time }
    }

    /// Adds a file. Its name must be short.
    pub fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.encoder.write_all(&header(&format!("{FOLDER}/{name}"), content.len(), self.time))?;
        self.encoder.write_all(content)?;
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        self.encoder.write_all(&vec![0; rest])
    }

    /// The whole archive.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.encoder.write_all(&[0; 2 * BLOCK])?;
        self.encoder.finish()
    }
}

fn header(name: &str, size: usize, time: u64) -> Vec<u8> {
    let fields = |sum: &str| {
        // Name, mode, user, group, size, time, checksum, type, link, magic and version; the rest is empty.
        let numbers = format!("{:07o}\0{:07o}\0{:07o}\0{size:011o}\0{time:011o}\0", 0o600, 0, 0);
        let mut header = name.as_bytes().to_vec();
        header.resize(100, 0);
        header.extend_from_slice(numbers.as_bytes());
        header.extend_from_slice(sum.as_bytes());
        header.push(b'0');
        header.resize(257, 0);
        header.extend_from_slice(b"ustar\x0000");
        header.resize(BLOCK, 0);
        header
    };
    // The checksum is computed as if its own field were spaces.
    let sum: u32 = fields("        ").iter().map(|byte| u32::from(*byte)).sum();
    fields(&format!("{sum:06o}\0 "))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::new(SystemTime::now());
        let large = b"line\n".repeat(10_000);
        for (name, content) in [("empty", &b""[..]), ("why/1.json", b"{}\n"), ("large", &large)] {
            archive.add(name, content).unwrap();
        }
        std::fs::write(&path, archive.finish().unwrap()).unwrap();
        let output =
            Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(folder.path()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let read = |name: &str| std::fs::read(folder.path().join(FOLDER).join(name)).unwrap();
        assert_eq!((read("empty"), read("why/1.json"), read("large")), (vec![], b"{}\n".to_vec(), large));
    }
}
