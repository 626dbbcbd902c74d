//! The variable that tells other jobs the process id of a job.

/// `CONTAINERPILOT_<JOB>_PID`, named as ContainerPilot does: a job may be named after its program, so only the last
/// part of a path counts, without its extension, and a run of other characters is one `_`.
pub fn pid_variable(job: &str) -> String {
    let base = job.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    // Of a hidden file nothing would be left.
    let stem = if stem.is_empty() { base } else { stem };
    let mut name = String::new();
    for letter in stem.chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_uppercase());
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    format!("CONTAINERPILOT_{name}_PID")
}
