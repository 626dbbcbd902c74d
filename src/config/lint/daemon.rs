//! Programs that move to the background by themselves, and the option that keeps each in the foreground. Pure: what
//! the configuration files of such a program say is not looked at.

use super::shell::base_name;
use crate::config::diagnostic::{Place, Problem, Problems};
use crate::config::spec::{CommandLine, Spec};
use crate::config::validate::SpecSpans;
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

const fn habit(
    programs: &'static [&'static str],
    background: Background,
    other_uses: &'static [&'static str],
    help: &'static str,
) -> Habit {
    Habit { programs, background, other_uses, help }
}

#[rustfmt::skip]
const HABITS: &[Habit] = &[
    // Servers that must be told to stay.
    habit(&["nginx", "openresty", "tengine", "angie"], Unless(&["daemon off"]),
        &["-t", "-T", "-s", "-v", "-V", "-h", "-?"], "add -g 'daemon off;'"),
    habit(&["httpd", "apache2"], Unless(&["-DFOREGROUND", "-DNO_DETACH", "-X"]),
        &["-t", "-S", "-M", "-l", "-L", "-v", "-V", "-h", "stop", "restart", "graceful", "graceful-stop"],
        "add -DFOREGROUND"),
    habit(&["apachectl", "apache2ctl"], Unless(&["-DFOREGROUND", "-DNO_DETACH", "-X"]),
        &["-t", "-S", "-M", "-l", "-L", "-v", "-V", "-h", "stop", "restart", "graceful", "graceful-stop",
            "configtest", "status", "fullstatus", "help"], "add -DFOREGROUND"),
    habit(&["lighttpd"], Unless(&["-D", "-i"]), &["-t", "-tt", "-p", "-v", "-V", "-h", "-1"], "add -D"),
    habit(&["php-fpm"], Unless(&["-F", "--nodaemonize"]),
        &["-t", "-tt", "--test", "-v", "--version", "-i", "--info", "-m", "-h", "--help"], "add -F"),
    habit(&["varnishd"], Unless(&["-F", "-d"]), &["-C", "-V", "-x", "-?"], "add -F"),
    habit(&["squid"], Unless(&["-N", "--foreground"]), &["-k", "-z", "-v", "-h"], "add --foreground"),
    habit(&["sshd"], Unless(&["-D", "-d", "-i"]), &["-t", "-T", "-G", "-V"],
        "add -D, and -e to see its log"),
    habit(&["dropbear"], Unless(&["-F", "-i"]), &["-V", "-h"], "add -F, and -E to see its log"),
    habit(&["cron"], Unless(&["-f"]), &[], "add -f"),
    habit(&["crond"], Unless(&["-f", "-n", "-x"]), &["-V", "-h"],
        "add -f (-n with older versions of cronie)"),
    habit(&["atd"], Unless(&["-f", "-d"]), &["-V", "-s"], "add -f"),
    habit(&["rsyslogd"], Unless(&["-n", "-d"]), &["-v", "-N"], "add -n"),
    habit(&["syslog-ng"], Unless(&["-F", "--foreground"]),
        &["-s", "--syntax-only", "-V", "--version", "-h", "--help"], "add -F"),
    habit(&["dnsmasq"], Unless(&["-k", "--keep-in-foreground", "-d", "--no-daemon"]),
        &["--test", "-v", "--version", "-w", "--help"], "add --keep-in-foreground"),
    habit(&["named"], Unless(&["-f", "-g"]), &["-v", "-V"], "add -f"),
    habit(&["unbound"], Unless(&["-d"]), &["-V", "-h"], "add -d"),
    habit(&["slapd"], Unless(&["-d"]), &["-T", "-V", "-VV"], "add -d 0"),
    habit(&["smbd", "nmbd", "winbindd"], Unless(&["-F", "--foreground", "-i", "--interactive"]),
        &["-b", "--build-options", "-V", "--version", "-h", "--help"], "add --foreground"),
    habit(&["keepalived"], Unless(&["-n", "--dont-fork"]),
        &["-t", "--config-test", "-v", "--version", "-h", "--help"], "add --dont-fork"),
    habit(&["ntpd"], Unless(&["-n", "--nofork", "-d", "-q"]), &["-V", "--version"], "add -n"),
    habit(&["chronyd"], Unless(&["-d", "-n", "-q", "-Q"]), &["-p", "-v", "--version", "-h", "--help"],
        "add -d"),
    habit(&["snmpd"], Unless(&["-f"]), &["-v", "-H", "-h"], "add -f"),
    habit(&["rpcbind"], Unless(&["-f", "-d"]), &[], "add -f"),
    habit(&["zabbix_agentd", "zabbix_server", "zabbix_proxy"], Unless(&["-f", "--foreground"]),
        &["-t", "--test", "-p", "--print", "-R", "--runtime-control", "-T", "-V", "--version", "-h", "--help"],
        "add --foreground"),
    habit(&["supervisord"], Unless(&["-n", "--nodaemon"]), &["-v", "--version", "-h", "--help"],
        "add --nodaemon"),
    // Servers that stay unless they are told otherwise.
    habit(&["redis-server", "redis-sentinel", "valkey-server", "valkey-sentinel", "keydb-server"],
        With(&["--daemonize yes"]), &[], "remove `--daemonize yes`"),
    habit(&["haproxy"], With(&["-D"]), &["-c", "-v", "-vv", "-db"], "write -W -db instead of -D"),
    habit(&["memcached"], With(&["-d", "--daemon"]), &[], "remove -d"),
    habit(&["mosquitto", "pgbouncer", "nutcracker"], With(&["-d", "--daemon", "--daemonize"]), &[],
        "remove -d"),
    habit(&["mysqld", "mariadbd"], With(&["-D", "--daemonize"]), &[], "remove --daemonize"),
    habit(&["mongod", "mongos"], With(&["--fork"]), &[], "remove --fork"),
    habit(&["gunicorn"], With(&["-D", "--daemon"]), &[], "remove --daemon"),
    habit(&["uwsgi"], With(&["-d", "--daemonize"]), &[], "remove --daemonize"),
    habit(&["openvpn"], With(&["--daemon"]), &[], "remove --daemon"),
    habit(&["dbus-daemon"], With(&["--fork"]), &[], "write --nofork instead of --fork"),
    habit(&["avahi-daemon"], With(&["-D", "--daemonize"]), &[], "remove --daemonize"),
    habit(&["exim", "exim4"], With(&["-bd"]), &[], "write -bdf instead of -bd"),
    // Commands that start a server and end.
    habit(&["postfix"], With(&["start"]), &[], "write `postfix start-fg`"),
    habit(&["pg_ctl"], With(&["start", "restart"]), &[], "execute postgres itself, with the same -D"),
    habit(&["pg_ctlcluster"], With(&["start", "restart"]), &["--foreground"], "add --foreground"),
    habit(&["service", "systemctl", "rc-service", "invoke-rc.d"], With(&["start", "restart"]), &[],
        "execute the program of the service itself, with the option that keeps it in the foreground"),
];

/// The scripts of services, whatever their names.
const SCRIPTS: &str = "/etc/init.d/";

/// Warns of jobs whose program moves to the background, where we lose it.
pub(super) fn lint(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    for (index, job) in spec.jobs.iter().enumerate() {
        let Some(habit) = job.exec.as_ref().and_then(moves_to_background) else { continue };
        // The command of the command line is in no file.
        let place = places.jobs.get(index).and_then(|place| place.exec).map_or(Place::Nowhere, Place::At);
        let program = job.exec.as_ref().map(|command| base_name(&command.program)).unwrap_or_default();
        let unless = match habit.background {
            Unless(_) => " unless its configuration says otherwise",
            With(_) => "",
        };
        let message = format!(
            "job {:?}: {program} moves to the background{unless}: the job ends at once, and what runs on is not \
             supervised",
            job.name
        );
        let help = format!("to keep it in the foreground: {}", habit.help);
        let problem = Problem::warning("background", place, message).help(help);
        problems.add(problem);
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

/// Whether a program is called so, perhaps with a version at the end, as `php-fpm8.2` is.
fn is_called(name: &str, program: &str) -> bool {
    name.strip_prefix(program)
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Whether an option is there, in whatever way it can be written: in doubt it is, and there is no warning.
fn has_loosely(words: &[&str], option: &str) -> bool {
    match option.as_bytes() {
        // One letter, perhaps among others.
        [b'-', letter] => words.iter().any(|word| {
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
            ("mongod --fork=true", "--fork"),
            ("gunicorn app:app --daemon", "--daemon"),
            ("postfix start", "start-fg"),
            ("service nginx start", "itself"),
            ("/etc/init.d/nginx start", "itself"),
            ("supervisord -c /etc/supervisord.conf", "--nodaemon"),
            ("supervisord -c /etc/with--nodaemon.conf", "--nodaemon"),
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
            "squid --foreground=1",
            "mongod --port=27017",
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
