//! Variables that come from files: read when a process starts, on the thread that starts it, since a file may hang. The
//! values go into the environment of that process and nowhere else; errors never show them.

mod syntax;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::error::SpawnError;
use super::variables::EnvironmentBlock;
use crate::config::spec::{ExecutionSpec, VariableFile};

/// The largest file that is read. The kernel takes no longer string.
const MOST_BYTES: u64 = 128 << 10;

/// Why a value cannot be used.
const NUL: &str = "a NUL character cannot be passed to a process";

/// A variable and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Adds the variables that come from files; `common` are those of all jobs. What is more special wins: the files of all jobs,
/// then the job's `envFile`, then its `env`.
pub(super) fn add(
    environment: &mut EnvironmentBlock,
    common: &[VariableFile],
    execution: &ExecutionSpec,
) -> Result<(), SpawnError> {
    if common.is_empty() && execution.env_files.is_empty() && execution.variable_files.is_empty() {
        return Ok(());
    }
    let mut entries: Vec<Entry> = Vec::new();
    for variable in common {
        entries.push(read_variable(variable)?);
    }
    for path in &execution.env_files {
        entries.extend(read_env_file(path)?);
    }
    let is_own = |name: &[u8]| execution.env.iter().any(|(own, _)| own.as_bytes() == name);
    entries.retain(|(name, _)| !is_own(name));
    for variable in &execution.variable_files {
        entries.push(read_variable(variable)?);
    }
    environment.set_all(&entries);
    Ok(())
}

fn read_variable(VariableFile { name, path }: &VariableFile) -> Result<Entry, SpawnError> {
    let cannot = |error| SpawnError::new(format!("read the variable {name} from {path:?}"), error);
    let mut value = read(path).map_err(cannot)?;
    if value.ends_with(b"\n") {
        value.pop();
        value.pop_if(|last| *last == b'\r');
    }
    if value.contains(&0) {
        return Err(cannot(invalid(NUL)));
    }
    Ok((name.as_bytes().to_vec(), value))
}

fn read_env_file(path: &Path) -> Result<Vec<Entry>, SpawnError> {
    let cannot = |error| SpawnError::new(format!("read the `envFile` {path:?}"), error);
    let text = read(path).map_err(cannot)?;
    syntax::parse(&text).map_err(|error| cannot(invalid(error)))
}

/// The whole file. What is no ordinary file, such as a pipe, could keep us waiting forever.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(invalid("not an ordinary file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(invalid(format!("the file is larger than {} KiB", MOST_BYTES >> 10)));
    }
    Ok(bytes)
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::variables::{Layered, Variables};
    use super::*;

    fn block(variables: &[(&str, &str)]) -> EnvironmentBlock {
        let variables: Variables = variables.iter().copied().collect();
        EnvironmentBlock::new(&Layered::over(&variables), vec!["HOME"], vec![])
    }

    fn texts(environment: &EnvironmentBlock) -> Vec<String> {
        let mut texts: Vec<String> =
            environment.iter().map(|text| text.to_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    }

    fn variable(name: &str, path: PathBuf) -> VariableFile {
        VariableFile { name: name.to_owned(), path }
    }

    #[test]
    fn what_is_more_special_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let common = [variable("A", file("a", "common\n")), variable("B", file("b", "common"))];
        let mut execution = ExecutionSpec {
            env_files: vec![file("env", "B=file\nC=file\nD=file\nE=file\n"), file("next", "C=next")],
            variable_files: vec![variable("D", file("d", "own\r\n"))],
            ..ExecutionSpec::default()
        };
        execution.env = vec![("E".into(), Some("own".into()))];
        let mut environment = block(&[("A", "inherited"), ("E", "own"), ("F", "inherited")]);
        add(&mut environment, &common, &execution).unwrap();
        assert_eq!(texts(&environment), ["A=common", "B=file", "C=next", "D=own", "E=own", "F=inherited"]);
    }

    #[test]
    fn each_kind_of_file_is_read_without_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let (value, list) = (folder.path().join("value"), folder.path().join("list"));
        fs::write(&value, "1").unwrap();
        fs::write(&list, "A=1").unwrap();
        let files = [variable("A", value)];
        let nothing = ExecutionSpec::default();
        let list = ExecutionSpec { env_files: vec![list], ..ExecutionSpec::default() };
        let own = ExecutionSpec { variable_files: files.to_vec(), ..ExecutionSpec::default() };
        for (common, execution) in [(&files[..], nothing), (&[], list), (&[], own)] {
            let mut environment = block(&[]);
            add(&mut environment, common, &execution).unwrap();
            assert_eq!(texts(&environment), ["A=1"], "{common:?} {execution:?}");
        }
    }

    #[test]
    fn one_newline_at_the_end_of_a_value_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        for (text, expected) in
            [("x", "x"), ("x\n", "x"), ("x\r\n", "x"), ("x\n\n", "x\n"), ("", ""), (" x ", " x ")]
        {
            fs::write(&path, text).unwrap();
            let (_, value) = read_variable(&variable("A", path.clone())).unwrap();
            assert_eq!(value, expected.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_that_says_why_and_shows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        let error = |path: &Path| read_variable(&variable("A", path.to_owned())).unwrap_err();
        let missing = error(&path);
        assert!(missing.to_string().ends_with("value\": No such file or directory"), "{missing}");
        assert_eq!(missing.shell_code(), 127);
        assert!(error(folder.path()).to_string().contains("directory"));
        assert!(error(Path::new("/dev/null")).to_string().ends_with("not an ordinary file"));
        fs::write(&path, "hunter2\0").unwrap();
        let nul = error(&path).to_string();
        assert!(nul.starts_with("cannot read the variable A from ") && nul.contains("NUL"), "{nul}");
        assert!(!nul.contains("hunter2"));
        fs::write(&path, vec![b'x'; 128 << 10]).unwrap();
        assert!(read_variable(&variable("A", path.clone())).is_ok());
        fs::write(&path, vec![b'x'; (128 << 10) + 1]).unwrap();
        assert!(error(&path).to_string().ends_with("the file is larger than 128 KiB"));
        fs::write(&path, "A=1\nhunter2\n").unwrap();
        let bad = read_env_file(&path).unwrap_err().to_string();
        assert!(bad.ends_with("value\": line 2: expected NAME=VALUE"), "{bad}");
    }

    #[test]
    fn a_variable_from_a_file_wins_over_those_of_the_user_and_of_jobs() {
        let mut environment = block(&[("CONTAINERPILOT_APP_PID", "1")]);
        let entry = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        environment.set_all(&[entry("HOME", "/file"), entry("CONTAINERPILOT_APP_PID", "2")]);
        environment.log_in(&[("HOME", "/home/app".into())]);
        let told = c"CONTAINERPILOT_APP_PID=3".to_owned();
        environment.tell(std::ffi::OsStr::new("CONTAINERPILOT_APP_PID"), &told.into());
        assert_eq!(texts(&environment), ["CONTAINERPILOT_APP_PID=2", "HOME=/file"]);
    }
}
