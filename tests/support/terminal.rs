//! A pseudo-terminal with a test at its keyboard and in front of its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::pty::openpty;
use nix::unistd::ttyname;

use super::{DEADLINE, comes_true};

/// A pseudo-terminal.
pub struct Terminal {
    /// The other side of it: keyboard and screen.
    master: File,
    path: PathBuf,
    screen: Arc<Mutex<String>>,
    /// Kept open: a terminal that nobody has open looks hung up to the master.
    _slave: File,
}

impl Terminal {
    /// A new one, whose screen is read from now on.
    pub fn new() -> Self {
        let pty = openpty(None, None).unwrap();
        let path = ttyname(&pty.slave).unwrap();
        let (master, screen) = (File::from(pty.master), Arc::new(Mutex::new(String::new())));
        let (mut reader, shown) = (master.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { master, path, screen, _slave: pty.slave.into() }
    }

    /// Opens it as a program's input and output would be.
    pub fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.path).unwrap()
    }

    /// Types a text, `\u{3}` for Ctrl-C.
    pub fn enter(&self, text: &str) {
        (&self.master).write_all(text.as_bytes()).unwrap();
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.enter(&format!("{text}\n"));
    }

    /// Everything that was on the screen, without carriage returns.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().replace('\r', "")
    }

    /// Waits until a text is on the screen.
    pub fn wait_for(&self, text: &str) {
        self.wait_for_times(text, 1);
    }

    /// Waits until a text was on the screen so often.
    pub fn wait_for_times(&self, text: &str, times: usize) {
        let is_shown = comes_true(DEADLINE, || self.screen().matches(text).count() >= times);
        assert!(is_shown, "not on the screen: {text:?}\n--- screen\n{}", self.screen());
    }

    /// Makes the window that large.
    pub fn resize(&self, rows: u16, columns: u16) {
        self.set(&["rows", &rows.to_string(), "cols", &columns.to_string()]);
    }

    /// Changes or shows its modes, as `stty` does.
    pub fn set(&self, words: &[&str]) -> String {
        let output = Command::new("stty").arg("-F").arg(&self.path).args(words).output().unwrap();
        assert!(output.status.success(), "stty {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
