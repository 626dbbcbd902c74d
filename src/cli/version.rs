//! `-version`, in ContainerPilot's form.

/// The git commit that this program was built from, or `unknown`.
pub const GIT_HASH: &str = env!("CONTAINERPILOT_GIT_HASH");

/// Version and git hash.
pub fn text() -> String {
    format!("Version: {}\nGitHash: {GIT_HASH}\n", env!("CARGO_PKG_VERSION"))
}
