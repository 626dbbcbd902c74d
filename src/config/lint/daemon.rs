//! Programs that move to the background by themselves, and the option that keeps each in the foreground. Pure: what
//! the configuration files of such a program say is not looked at.

use crate::config::diagnostic::{Place, Problem, Problems};
use crate::config::spec::{CommandLine, Spec};
use crate::config::validate::Places;
use Background::{Unless, With};

/// How a program behaves.
struct Habit {
    /// Its names, without a version at their end.
    programs: &'static [&'static str],
    background: Background,
    /// With one of these words it does something else than serve: it tests its configuration, or signals the server.
    other_uses: &'static [&'static str],
    help: &'static str,
}

/// When a program moves to the background.
enum Background {
    /// Always, unless it has one of these options.
    Unless(&'static [&'static str]),
    /// Only with one of these options or words.
    With(&'static [&'static str]),
}

#[rustfmt::skip]
const HABITS: &[Habit] = &[
    // Servers that must be told to stay.
    Habit { programs: &["nginx", "openresty", "tengine", "angie"], background: Unless(&["daemon off"]),
        other_uses: &["-t", "-T", "-s", "-v", "-V", "-h", "-?"],
        help: "add -g 'daemon off;'" },
    Habit { programs: &["httpd", "apache2"], background: Unless(&["-DFOREGROUND", "-DNO_DETACH", "-X"]),
        other_uses: &["-t", "-S", "-M", "-l", "-L", "-v", "-V", "-h", "stop", "restart", "graceful",
            "graceful-stop"],
        help: "add -DFOREGROUND" },
    Habit { programs: &["apachectl", "apache2ctl"], background: Unless(&["-DFOREGROUND", "-DNO_DETACH", "-X"]),
        other_uses: &["-t", "-S", "-M", "-l", "-L", "-v", "-V", "-h", "stop", "restart", "graceful",
            "graceful-stop",
            "configtest", "status", "fullstatus", "help"],
        help: "add -DFOREGROUND" },
    Habit { programs: &["lighttpd"], background: Unless(&["-D", "-i"]),
        other_uses: &["-t", "-tt", "-p", "-v", "-V", "-h", "-1"],
        help: "add -D" },
    Habit { programs: &["php-fpm"], background: Unless(&["-F", "--nodaemonize"]),
        other_uses: &["-t", "-tt", "--test", "-v", "--version", "-i", "--info", "-m", "-h", "--help"],
        help: "add -F" },
    Habit { programs: &["varnishd"], background: Unless(&["-F", "-d"]), other_uses: &["-C", "-V", "-x", "-?"],
        help: "add -F" },
    Habit { programs: &["squid"], background: Unless(&["-N", "--foreground"]),
        other_uses: &["-k", "-z", "-v", "-h"],
        help: "add --foreground" },
    Habit { programs: &["sshd"], background: Unless(&["-D", "-d", "-i"]), other_uses: &["-t", "-T", "-G", "-V"],
        help: "add -D, and -e to see its log" },
    Habit { programs: &["dropbear"], background: Unless(&["-F", "-i"]), other_uses: &["-V", "-h"],
        help: "add -F, and -E to see its log" },
    Habit { programs: &["cron"], background: Unless(&["-f"]), other_uses: &[], help: "add -f" },
    Habit { programs: &["crond"], background: Unless(&["-f", "-n", "-x"]), other_uses: &["-V", "-h"],
        help: "add -f (-n with older versions of cronie)" },
    Habit { programs: &["atd"], background: Unless(&["-f", "-d"]), other_uses: &["-V", "-s"], help: "add -f" },
    Habit { programs: &["rsyslogd"], background: Unless(&["-n", "-d"]),
        other_uses: &["-v", "-N"], help: "add -n" },
    Habit { programs: &["syslog-ng"], background: Unless(&["-F", "--foreground"]),
        other_uses: &["-s", "--syntax-only", "-V", "--version", "-h", "--help"],
        help: "add -F" },
    Habit { programs: &["dnsmasq"], background: Unless(&["-k", "--keep-in-foreground", "-d", "--no-daemon"]),
        other_uses: &["--test", "-v", "--version", "-w", "--help"],
        help: "add --keep-in-foreground" },
    Habit { programs: &["named"], background: Unless(&["-f", "-g"]),
        other_uses: &["-v", "-V"], help: "add -f" },
    Habit { programs: &["unbound"], background: Unless(&["-d"]), other_uses: &["-V", "-h"], help: "add -d" },
    Habit { programs: &["slapd"], background: Unless(&["-d"]),
        other_uses: &["-T", "-V", "-VV"], help: "add -d 0" },
    Habit { programs: &["smbd", "nmbd", "winbindd"], background: Unless(&["-F", "--foreground", "-i", "--interactive"]),
        other_uses: &["-b", "--build-options", "-V", "--version", "-h", "--help"],
        help: "add --foreground" },
    Habit { programs: &["keepalived"], background: Unless(&["-n", "--dont-fork"]),
        other_uses: &["-t", "--config-test", "-v", "--version", "-h", "--help"],
        help: "add --dont-fork" },
    Habit { programs: &["ntpd"], background: Unless(&["-n", "--nofork", "-d", "-q"]),
        other_uses: &["-V", "--version"],
        help: "add -n" },
    Habit { programs: &["chronyd"], background: Unless(&["-d", "-n", "-q", "-Q"]),
        other_uses: &["-p", "-v", "--version", "-h", "--help"],
        help: "add -d" },
    Habit { programs: &["snmpd"], background: Unless(&["-f"]),
        other_uses: &["-v", "-H", "-h"], help: "add -f" },
    Habit { programs: &["rpcbind"], background: Unless(&["-f", "-d"]), other_uses: &[], help: "add -f" },
    Habit { programs: &["zabbix_agentd", "zabbix_server", "zabbix_proxy"], background: Unless(&["-f", "--foreground"]),
        other_uses: &["-t", "--test", "-p", "--print", "-R", "--runtime-control", "-T", "-V", "--version",
            "-h", "--help"],
        help: "add --foreground" },
    Habit { programs: &["supervisord"], background: Unless(&["-n", "--nodaemon"]),
        other_uses: &["-v", "--version", "-h", "--help"],
        help: "add --nodaemon" },
    // Servers that stay unless they are told otherwise.
    Habit { programs: &["redis-server", "redis-sentinel", "valkey-server", "valkey-sentinel", "keydb-server"],
        background: With(&["--daemonize yes"]), other_uses: &[],
        help: "remove `--daemonize yes`" },
    Habit { programs: &["haproxy"], background: With(&["-D"]), other_uses: &["-c", "-v", "-vv", "-db"],
        help: "write -W -db instead of -D" },
    Habit { programs: &["memcached"], background: With(&["-d", "--daemon"]),
        other_uses: &[], help: "remove -d" },
    Habit { programs: &["mosquitto", "pgbouncer", "nutcracker"], background: With(&["-d", "--daemon", "--daemonize"]),
        other_uses: &[],
        help: "remove -d" },
    Habit { programs: &["mysqld", "mariadbd"], background: With(&["-D", "--daemonize"]), other_uses: &[],
        help: "remove --daemonize" },
    Habit { programs: &["mongod", "mongos"], background: With(&["--fork"]),
        other_uses: &[], help: "remove --fork" },
    Habit { programs: &["gunicorn"], background: With(&["-D", "--daemon"]),
        other_uses: &[], help: "remove --daemon" },
    Habit { programs: &["uwsgi"], background: With(&["-d", "--daemonize"]),
        other_uses: &[], help: "remove --daemonize" },
    Habit { programs: &["openvpn"], background: With(&["--daemon"]), other_uses: &[], help: "remove --daemon" },
    Habit { programs: &["dbus-daemon"], background: With(&["--fork"]),
        other_uses: &[], help: "write --nofork instead of --fork" },
    Habit { programs: &["avahi-daemon"], background: With(&["-D", "--daemonize"]),
        other_uses: &[], help: "remove --daemonize" },
    Habit { programs: &["exim", "exim4"], background: With(&["-bd"]),
        other_uses: &[], help: "write -bdf instead of -bd" },
    // Commands that start a server and end.
    Habit { programs: &["postfix"], background: With(&["start"]),
        other_uses: &[], help: "write `postfix start-fg`" },
    Habit { programs: &["pg_ctl"], background: With(&["start", "restart"]), other_uses: &[],
        help: "execute postgres itself, with the same -D" },
    Habit { programs: &["pg_ctlcluster"], background: With(&["start", "restart"]),
        other_uses: &["--foreground"],
        help: "add --foreground" },
    Habit { programs: &["service", "systemctl", "rc-service", "invoke-rc.d"], background: With(&["start", "restart"]),
        other_uses: &[],
        help: "execute the program of the service itself, with the option that keeps it in the foreground" },
];

/// The scripts of services, whatever their names.
const SCRIPTS: &str = "/etc/init.d/";

/// Warns of jobs whose program moves to the background, where we lose it.
pub(super) fn lint(spec: &Spec, places: &Places, problems: &mut Problems) {
    for (index, job) in spec.jobs.iter().enumerate() {
        let Some(habit) = job.exec.as_ref().and_then(moves_to_background) else { continue };
        // The command of the command line is in no file.
        let place = places.jobs.get(index).and_then(|place| place.exec).map_or(Place::Nowhere, Place::At);
        let program = job.exec.as_ref().map(|command| base_name(&command.program)).unwrap_or_default();
        let message = format!(
            "job {:?}: {program} moves to the background: the job ends at once, and what runs on is not supervised",
            job.name
        );
        let help = format!("to keep it in the foreground: {}", habit.help);
        let problem = Problem::warning("background", place, message).help(help);
        problems.add(match habit.background {
            Unless(_) => problem.note("its own configuration may say otherwise, and is not looked at"),
            With(_) => problem,
        });
    }
}

/// The habit of a program that this command lets move to the background.
fn moves_to_background(command: &CommandLine) -> Option<&'static Habit> {
    let name = base_name(&command.program);
    let name = if command.program.starts_with(SCRIPTS) { "service" } else { name };
    let habit = HABITS.iter().find(|habit| habit.programs.iter().any(|program| is_called(name, program)))?;
    let words: Vec<&str> = command.args.iter().map(String::as_str).collect();
    if habit.other_uses.iter().any(|word| words.contains(word)) || is_foreground_of_busybox(name, &words) {
        return None;
    }
    let moves = match habit.background {
        Unless(options) => !options.iter().any(|option| has_loosely(&words, option)),
        With(options) => options.iter().any(|option| has_exactly(&words, option)),
    };
    moves.then_some(habit)
}

/// The httpd of busybox stays with `-f`, which for Apache's names a file.
fn is_foreground_of_busybox(name: &str, words: &[&str]) -> bool {
    let is_alone = |place: usize| words.get(place + 1).is_none_or(|next| next.starts_with('-'));
    name == "httpd" && words.iter().position(|word| word.starts_with("-f")).is_some_and(is_alone)
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Whether a program is called so, perhaps with a version at the end, as `php-fpm8.2` is.
fn is_called(name: &str, program: &str) -> bool {
    name.strip_prefix(program)
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Whether an option is there, in whatever way it can be written: in doubt it is, and there is no warning.
fn has_loosely(words: &[&str], option: &str) -> bool {
    match option.as_bytes() {
        // One letter, perhaps among others.
        [b'-', letter] if *letter != b'-' => words.iter().any(|word| {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
            letters.bytes().any(|other| other == *letter)
        }),
        // A name that has only one dash, or a value that may be a word of its own.
        [b'-', letter, name @ ..] if *letter != b'-' => {
            let flag = [b'-', *letter];
            let apart = words.windows(2).any(|pair| {
                matches!(pair, [first, second] if first.as_bytes() == flag && second.as_bytes() == name)
            });
            apart || words.contains(&option)
        }
        [b'-', ..] => has_exactly(words, option),
        // The directive of a configuration, within a word.
        _ => words
            .iter()
            .any(|word| word.split_ascii_whitespace().collect::<Vec<_>>().join(" ").contains(option)),
    }
}

/// Whether an option or word is there as it is, alone or with a value after `=`; two words stand for two words.
fn has_exactly(words: &[&str], option: &str) -> bool {
    if let Some((first, second)) = option.split_once(' ') {
        return words.windows(2).any(|pair| pair == [first, second]);
    }
    words.iter().any(|word| *word == option || word.split_once('=').is_some_and(|(name, _)| name == option))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::words;

    fn help(line: &str) -> Option<&'static str> {
        let mut words = words::split(line).unwrap().into_iter();
        let command = CommandLine { program: words.next().unwrap(), args: words.collect() };
        moves_to_background(&command).map(|habit| habit.help)
    }

    #[test]
    fn a_program_that_moves_to_the_background_is_named_with_the_option_that_keeps_it() {
        for (line, expected) in [
            ("nginx", "-g 'daemon off;'"),
            ("/usr/sbin/nginx -c /etc/nginx.conf", "-g 'daemon off;'"),
            ("nginx -g 'worker_processes 2;'", "-g 'daemon off;'"),
            ("redis-server --daemonize yes", "remove `--daemonize yes`"),
            ("redis-server /etc/redis.conf --daemonize yes --port 7", "remove `--daemonize yes`"),
            ("sshd", "-D"),
            ("/usr/sbin/sshd -e -p 2222", "-D"),
            ("cron", "-f"),
            ("crond -l 2", "-f"),
            ("pg_ctl -D /data start", "postgres itself"),
            ("pg_ctlcluster 16 main start", "--foreground"),
            ("httpd -k start", "-DFOREGROUND"),
            ("httpd", "-DFOREGROUND"),
            ("httpd -f /etc/httpd.conf", "-DFOREGROUND"),
            ("apache2ctl start", "-DFOREGROUND"),
            ("php-fpm", "-F"),
            ("php-fpm8.2 -y /etc/fpm.conf", "-F"),
            ("haproxy -D -f /etc/haproxy.cfg", "-W -db"),
            ("memcached -d -m 64", "-d"),
            ("rsyslogd", "-n"),
            ("dnsmasq -C /etc/dnsmasq.conf", "--keep-in-foreground"),
            ("named -c /etc/named.conf", "-f"),
            ("mysqld --daemonize", "--daemonize"),
            ("mongod --fork --logpath /log", "--fork"),
            ("gunicorn app:app --daemon", "--daemon"),
            ("postfix start", "start-fg"),
            ("service nginx start", "itself"),
            ("/etc/init.d/nginx start", "itself"),
            ("supervisord -c /etc/supervisord.conf", "--nodaemon"),
        ] {
            let help = help(line).unwrap_or_else(|| panic!("{line} is not found"));
            assert!(help.contains(expected), "{line}: {help}");
        }
    }

    #[test]
    fn a_program_that_stays_or_does_something_else_is_left_alone() {
        for line in [
            r#"nginx -g "daemon off;""#,
            "nginx -c /etc/nginx.conf -g 'error_log stderr; daemon  off;'",
            "nginx -t",
            "nginx -s reload",
            "redis-server",
            "redis-server /etc/redis.conf --daemonize no",
            "sshd -D",
            "sshd -De",
            "sshd -t",
            "cron -f -L 15",
            "crond -fd8",
            "crond -n",
            "postgres -D /data",
            "pg_ctl -D /data stop",
            "pg_ctlcluster 16 main start --foreground",
            "httpd -DFOREGROUND",
            "httpd -D FOREGROUND -f /etc/httpd.conf",
            "httpd -k graceful",
            "httpd -f -p 8080 -h /www",
            "httpd -fvv",
            "httpd-foreground",
            "apache2ctl -D FOREGROUND",
            "apache2ctl configtest",
            "php-fpm -F",
            "php-fpm8.2 --nodaemonize",
            "php-fpm -t",
            "haproxy -f /etc/haproxy.cfg",
            "haproxy -W -db -f /etc/haproxy.cfg",
            "memcached -m 64",
            "rsyslogd -n",
            "dnsmasq -k",
            "dnsmasq --keep-in-foreground",
            "dnsmasq --no-daemon",
            "named -f",
            "named -g -u named",
            "mysqld_safe",
            "mysqld",
            "consul agent -dev",
            "postfix start-fg",
            "service nginx status",
            "sh -c nginx",
            "/bin/bash -c 'nginx && redis-server --daemonize yes'",
            "./nginx.sh",
            "docker-entrypoint.sh nginx",
            "nginx-prometheus-exporter",
            "cronolog",
            "sleep 1",
        ] {
            assert_eq!(help(line), None, "{line}");
        }
    }

    #[test]
    fn no_program_is_in_the_table_twice() {
        let mut programs: Vec<&str> = HABITS.iter().flat_map(|habit| habit.programs).copied().collect();
        let count = programs.len();
        programs.sort_unstable();
        programs.dedup();
        assert_eq!(programs.len(), count);
    }
}
