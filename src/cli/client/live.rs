//! Finds the control sockets on this machine that a containerpilot listens on, for the hint to a user who named another
//! one. The client never chooses one itself: a command to the wrong containerpilot may do harm.

use std::fs;
use std::path::{Path, PathBuf};

/// The limit on the sockets that a hint names.
const MOST: usize = 4;

/// The control sockets with a listener, those in the directory of `asked` first.
pub fn sockets(asked: &Path) -> Vec<PathBuf> {
    let mut found = listening(&fs::read_to_string("/proc/net/unix").unwrap_or_default());
    found.retain(|path| path.exists());
    found.sort_by_key(|path| path.parent() != asked.parent());
    found.truncate(MOST);
    found
}

/// The control sockets in /proc/net/unix: one is bound as `PATH~`, then renamed to `PATH`.
fn listening(list: &str) -> Vec<PathBuf> {
    let accepts = |line: &&str| line.split_whitespace().nth(3) == Some("00010000");
    let path = |line: &str| line.get(line.find('/')?..)?.strip_suffix('~').map(PathBuf::from);
    list.lines().filter(accepts).filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_sockets_that_are_listened_on_are_found() {
        let list = "\
Num       RefCount Protocol Flags    Type St Inode Path
00000000b9062edb: 00000002 00000000 00010000 0001 01  4309 /var/run/docker.sock
000000002622d65e: 00000003 00000000 00000000 0001 03 73137
00000000403957f4: 00000002 00000000 00010000 0001 01 63969 /run/a b/control.socket~
00000000403957f5: 00000003 00000000 00000000 0001 03 63970 /run/a b/control.socket~
00000000bb263de8: 00000002 00000000 00010000 0001 01  4316 @abstract~
";
        assert_eq!(listening(list), [PathBuf::from("/run/a b/control.socket")]);
        assert!(listening("").is_empty());
    }
}
