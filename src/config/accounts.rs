//! The users and groups of `/etc/passwd` and `/etc/group`. We read these files ourselves: nix and uzers ask the C library, which
//! in a static program would load the name services of whatever system it runs on, and containers have only these.

use std::fs;
use std::path::PathBuf;

use super::spec::UserSpec;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user that has an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Number.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

/// The user of a number.
pub fn user_numbered(uid: u32) -> Option<User> {
    users(&text_of(USERS)).find(|user| user.uid == uid)
}

/// The user of a name or number. A number needs no entry: it then stands for its own group too.
pub(super) fn user(text: &str) -> Option<UserSpec> {
    let number: Option<u32> = text.parse().ok();
    let known = match number {
        Some(number) => user_numbered(number),
        None => users(&text_of(USERS)).find(|user| user.name == text),
    };
    match known {
        Some(user) => Some(UserSpec { name: Some(user.name), uid: user.uid, gid: user.gid }),
        None => number.map(|uid| UserSpec { name: None, uid, gid: uid }),
    }
}

/// The number of a group given by name or number.
pub(super) fn group(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    groups(&text_of(GROUPS)).find(|group| group.name == text).map(|group| group.gid)
}

/// Every group of a user: the given one first, then those that list the user as a member.
pub fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    membership(&text_of(GROUPS), name, gid)
}

/// A file that is missing, as in an empty root file system, has no entries.
fn text_of(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

/// `name:password:uid:gid:comment:home:shell`; lines of another form are none of ours.
fn users(text: &str) -> impl Iterator<Item = User> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| is_name(name))?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).filter(|home| !home.is_empty()).unwrap_or("/").into();
        Some(User { name, uid, gid, home })
    })
}

/// `name:password:gid:member,member`.
fn groups(text: &str) -> impl Iterator<Item = Group<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| is_name(name))?;
        let gid = fields.nth(1)?.parse().ok()?;
        Some(Group { name, gid, members: fields.next().unwrap_or_default().trim() })
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['#', '+', '-'])
}

fn membership(text: &str, name: &str, gid: u32) -> Vec<u32> {
    let mut numbers = vec![gid];
    for group in groups(text) {
        if group.members.split(',').any(|member| member == name) && !numbers.contains(&group.gid) {
            numbers.push(group.gid);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
# a comment:x:1:1::/:
+nis:x:2:2::/:
odd
app:x:1000:1001:the app,,,:/srv/app:/usr/sbin/nologin
homeless:x:7:7
";
    const GROUP: &str = "root:x:0:\nadm:x:4:app,root\napp:x:1001:\nwww:x:33:other,app\nadm2:x:4:app\nodd:x\n";

    #[test]
    fn a_user_has_the_numbers_and_the_home_of_its_line() {
        let found: Vec<User> = users(PASSWD).collect();
        let user = |name: &str, uid, gid, home: &str| User { name: name.into(), uid, gid, home: home.into() };
        let expected =
            [user("root", 0, 0, "/root"), user("app", 1000, 1001, "/srv/app"), user("homeless", 7, 7, "/")];
        assert_eq!(found, expected, "comments, entries of other services and broken lines are passed over");
    }

    #[test]
    fn the_groups_of_a_user_are_its_own_and_those_that_list_it_each_once() {
        assert_eq!(membership(GROUP, "app", 1001), [1001, 4, 33]);
        assert_eq!(membership(GROUP, "root", 0), [0, 4]);
        assert_eq!(membership(GROUP, "ap", 9), [9]);
        assert_eq!(groups(GROUP).find(|group| group.name == "www").map(|group| group.gid), Some(33));
    }

    #[test]
    fn root_is_known_by_name_and_number_and_other_numbers_need_no_entry() {
        assert_eq!(user("root").map(|user| user.uid), Some(0));
        assert_eq!(user("0").and_then(|user| user.name), Some("root".to_owned()));
        assert_eq!(user("4000000").map(|user| (user.name, user.gid)), Some((None, 4_000_000)));
        assert_eq!(user("no-such-user"), None);
        assert_eq!(group("root"), Some(0));
        assert_eq!(group("no-such-group"), None);
    }

    #[test]
    fn this_machines_own_files_are_read() {
        assert_eq!(user_numbered(0).map(|user| user.name).as_deref(), Some("root"));
        assert_eq!(groups_of("no-such-user", 5), [5]);
    }
}
