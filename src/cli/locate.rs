//! Where the configuration is: the flag, then the environment, then the default paths. Pure: the caller says
//! what the environment holds and which files exist.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The environment variable that names the configuration.
pub const VARIABLE: &str = "CONTAINERPILOT";

/// The default paths, in this order.
pub const DEFAULT_PATHS: [&str; 2] = ["/etc/containerpilot.json5", "/etc/containerpilot.d"];

/// Why there is no configuration.
pub const NOT_FOUND: &str = "-config is not given, $CONTAINERPILOT is not set, and neither \
/etc/containerpilot.json5 nor /etc/containerpilot.d exists";

/// The path of the configuration. What a user named is taken as it is, so that a file that does not exist is
/// an error and not a reason to look elsewhere; `None` if nobody named one and no default path exists.
pub fn locate(
    flag: Option<&Path>,
    variable: Option<&OsStr>,
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    flag.map(Path::as_os_str)
        .or_else(|| variable.filter(|value| !value.is_empty()))
        .map(without_scheme)
        .or_else(|| DEFAULT_PATHS.into_iter().map(PathBuf::from).find(|path| exists(path)))
}

/// The path that a user wrote: ContainerPilot 2 wrote paths as `file:///etc/containerpilot.json5`.
pub fn without_scheme(path: &OsStr) -> PathBuf {
    let bytes = path.as_bytes();
    let bytes = bytes.strip_prefix(b"file://").unwrap_or(bytes);
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(flag: Option<&str>, variable: Option<&str>, existing: &[&str]) -> Option<String> {
        locate(flag.map(Path::new), variable.map(OsStr::new), |path| {
            existing.iter().any(|place| path == Path::new(place))
        })
        .map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_flag_wins_over_the_variable_and_the_variable_over_the_default_paths() {
        let [file, directory] = DEFAULT_PATHS;
        for (flag, variable, existing, expected) in [
            (Some("F"), Some("V"), &[file, directory][..], Some("F")),
            (None, Some("V"), &[file, directory], Some("V")),
            (None, None, &[file, directory], Some(file)),
            (None, None, &[directory], Some(directory)),
            (None, None, &[], None),
            (None, Some(""), &[], None),
            (None, Some(""), &[file], Some(file)),
        ] {
            assert_eq!(located(flag, variable, existing).as_deref(), expected);
        }
    }

    #[test]
    fn a_file_url_is_a_path() {
        assert_eq!(located(Some("file:///a/b"), None, &[]).as_deref(), Some("/a/b"));
        assert_eq!(located(None, Some("file://rel"), &[]).as_deref(), Some("rel"));
    }

    #[test]
    fn the_error_names_every_path() {
        for place in DEFAULT_PATHS.into_iter().chain(["-config", "$CONTAINERPILOT"]) {
            assert!(NOT_FOUND.contains(place), "{place}");
        }
        assert!(NOT_FOUND.contains(VARIABLE));
    }
}
