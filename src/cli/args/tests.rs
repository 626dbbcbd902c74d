use super::*;
use crate::cli::request::{Color, Format};
use crate::graph;
use crate::messages::signal::Signal;

fn parsed(line: &str) -> Result<Request, clap::Error> {
    parse(line.split(' ').map(OsString::from), false)
}

fn client(line: &str) -> ClientRequest {
    let request = parsed(line).unwrap();
    let Request::Client { config: None, socket: None, request } = request else {
        panic!("{line}: {request:?}")
    };
    request
}

fn usage_error(line: &str) -> String {
    let error = parsed(line).expect_err(line);
    assert!(error.use_stderr(), "{line}");
    assert_eq!(error.exit_code(), 2, "{line}");
    error.render().to_string()
}

fn reload(restart_all: bool, dry_run: bool) -> ClientRequest {
    ClientRequest::Reload(Reload { restart_all, dry_run })
}

fn supervise(config: Option<&str>, main: Option<(&str, &[&str])>) -> Request {
    let main = main.map(|(program, args)| CommandLine {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    });
    Request::Supervise { config: config.map(PathBuf::from), main, leftover: Vec::new(), record: None }
}

#[test]
fn without_a_mode_it_supervises() {
    for (line, expected) in [
        ("cp", supervise(None, None)),
        ("cp -config F", supervise(Some("F"), None)),
        ("cp --config=F", supervise(Some("F"), None)),
        ("cp -config F -- app -v --x", supervise(Some("F"), Some(("app", &["-v", "--x"])))),
        ("cp -- app -- -config", supervise(None, Some(("app", &["--", "-config"])))),
        ("cp -- check", supervise(None, Some(("check", &[])))),
    ] {
        assert_eq!(parsed(line).unwrap(), expected, "{line}");
    }
}

#[test]
fn a_record_is_for_supervision_alone() {
    for line in ["cp -record R", "cp --record=R", "cp -record R -- app", "cp -config F -record R word"] {
        let Request::Supervise { record, .. } = parsed(line).unwrap() else { panic!("{line}") };
        assert_eq!(record, Some("R".into()), "{line}");
    }
    for line in ["cp -record R -template", "cp -record R -reload", "cp -record R check", "cp -record"] {
        usage_error(line);
    }
    assert_eq!(parsed("cp replay R").unwrap(), Request::Replay { record: "R".into() });
    usage_error("cp replay");
}

#[test]
fn flags_are_accepted_with_one_dash_or_two() {
    for line in
        ["cp -template -config F -out O", "cp --template --config F --out O", "cp -template -config=F -out=O"]
    {
        let expected =
            Request::Render { config: Some("F".into()), destination: Destination::File("O".into()) };
        assert_eq!(parsed(line).unwrap(), expected, "{line}");
    }
}

#[test]
fn migrate_takes_the_old_file_and_perhaps_a_destination_and_the_main_application() {
    let migrate = |destination, main: Option<&str>| Request::Migrate {
        old: "OLD".into(),
        destination,
        main: main.map(|program| CommandLine { program: program.to_owned(), args: vec!["-out".to_owned()] }),
    };
    let file = || Destination::File("O".into());
    for (line, expected) in [
        ("cp migrate OLD", migrate(Destination::Stdout, None)),
        ("cp migrate OLD -out O", migrate(file(), None)),
        ("cp migrate --out=O OLD -- app -out", migrate(file(), Some("app"))),
        ("cp migrate -out - OLD -- app -out", migrate(Destination::Stdout, Some("app"))),
    ] {
        assert_eq!(parsed(line).unwrap(), expected, "{line}");
    }
    for line in ["cp migrate", "cp migrate OLD --", "cp migrate OLD NEW", "cp -template migrate OLD"] {
        usage_error(line);
    }
}

#[test]
fn a_dash_as_output_is_stdout() {
    for line in ["cp -template", "cp -template -out -"] {
        let expected = Request::Render { config: None, destination: Destination::Stdout };
        assert_eq!(parsed(line).unwrap(), expected, "{line}");
    }
}

#[test]
fn a_request_can_name_its_socket_and_nothing_else_can() {
    for line in ["cp -socket S -ping", "cp --ping --socket=S", "cp -socket S status", "cp stop app -socket S"]
    {
        let request = parsed(line).unwrap();
        assert!(
            matches!(&request, Request::Client { socket: Some(socket), .. } if socket.as_os_str() == "S"),
            "{line}: {request:?}"
        );
    }
    for line in ["cp -socket S", "cp -socket S -- app", "cp check -socket S", "cp -socket S -template"] {
        assert!(usage_error(line).contains("-socket is for requests to a running containerpilot"), "{line}");
    }
}

#[test]
fn client_flags_become_requests() {
    let set = |key: &str, value: Option<&str>| (key.to_owned(), value.map(ToOwned::to_owned));
    for (line, expected) in [
        ("cp -reload", reload(false, false)),
        ("cp -reload -all", reload(true, false)),
        ("cp -reload --dry-run", reload(false, true)),
        ("cp -reload --dry-run -all", reload(true, true)),
        ("cp -ping", ClientRequest::Ping),
        ("cp -maintenance enable", ClientRequest::Maintenance(Maintenance::Enable)),
        ("cp --maintenance=disable", ClientRequest::Maintenance(Maintenance::Disable)),
        (
            "cp -putenv A=-v -putenv B -putenv C= -putenv D=x=y",
            ClientRequest::PutEnvironment(vec![
                set("A", Some("-v")),
                set("B", None),
                set("C", Some("")),
                set("D", Some("x=y")),
            ]),
        ),
        (
            "cp -putmetric a=1 -putmetric b=-2.5e3",
            ClientRequest::PutMetrics(vec![("a".to_owned(), 1.0), ("b".to_owned(), -2500.0)]),
        ),
    ] {
        assert_eq!(client(line), expected, "{line}");
    }
}

#[test]
fn ready_takes_any_number_of_jobs() {
    let ready = |jobs: &[&str], wait: Option<u64>| ClientRequest::Ready {
        jobs: jobs.iter().map(|name| (*name).to_owned()).collect(),
        wait: wait.map(Duration::from_secs),
    };
    for (line, expected) in [
        ("cp -ready", ready(&[], None)),
        ("cp -ready -wait 30s", ready(&[], Some(30))),
        ("cp -ready app db", ready(&["app", "db"], None)),
        ("cp -ready app db -wait 2m", ready(&["app", "db"], Some(120))),
        ("cp -ready app -wait=5", ready(&["app"], Some(5))),
    ] {
        assert_eq!(client(line), expected, "{line}");
    }
    assert!(parsed("cp -wait 3s").is_err());
    assert!(parsed("cp -ready -wait soon").is_err());
    assert!(parsed("cp -ready -ping").is_err());
}

#[test]
fn commands_become_requests() {
    let job = |name: &str, order| ClientRequest::Job(ControlJob { name: name.to_owned(), order });
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let status = |jobs: &[&str], format, watch| ClientRequest::Status { jobs: names(jobs), format, watch };
    let orders = |jobs: &[&str], order, wait: Option<u64>| ClientRequest::Orders {
        names: names(jobs),
        order,
        wait: wait.map(Duration::from_secs),
    };
    let why = |format| ClientRequest::Why { job: "app".to_owned(), format };
    let graph = |format, main| ClientRequest::Graph { format, main };
    for (line, expected) in [
        ("cp status", status(&[], Format::Human, false)),
        ("cp status -format json", status(&[], Format::Json, false)),
        ("cp events", ClientRequest::Events { since: None, follow: false }),
        ("cp events -f", ClientRequest::Events { since: None, follow: true }),
        ("cp events -since 7 -follow", ClientRequest::Events { since: Some(7), follow: true }),
        ("cp status a b", status(&["a", "b"], Format::Human, false)),
        ("cp status -watch", status(&[], Format::Human, true)),
        ("cp start app", orders(&["app"], JobOrder::Start, Some(60))),
        ("cp stop a b -no-wait", orders(&["a", "b"], JobOrder::Stop, None)),
        ("cp restart -wait 5s app", orders(&["app"], JobOrder::Restart, Some(5))),
        ("cp why app", why(Format::Human)),
        ("cp why app -format json", why(Format::Json)),
        ("cp when", ClientRequest::When { jobs: vec![] }),
        ("cp when app", ClientRequest::When { jobs: names(&["app"]) }),
        ("cp graph", graph(graph::Format::Text, None)),
        ("cp graph -format svg", graph(graph::Format::Svg, None)),
        ("cp graph -- app -v", graph(graph::Format::Text, Some(app_v()))),
        ("cp signal app hup", job("app", JobOrder::Signal(Signal::HUP))),
    ] {
        assert_eq!(client(line), expected, "{line}");
    }
    assert_eq!(parsed("cp schema").unwrap(), Request::Schema);
}

#[test]
fn flags_of_one_letter_may_be_written_together_and_with_their_number() {
    let expected =
        |follow, lines| ClientRequest::Logs { jobs: vec!["app".into()], follow, lines, since: None };
    for (line, follow, lines) in [
        ("cp logs app -n 5", false, 5),
        ("cp logs -n5 app", false, 5),
        ("cp logs -fn5 app", true, 5),
        ("cp logs -fn 5 app", true, 5),
        ("cp logs -f app", true, 100),
        ("cp logs -follow -lines 5 app", true, 5),
    ] {
        assert_eq!(client(line), expected(follow, lines), "{line}");
    }
    assert!(usage_error("cp logs -folow").contains("a similar argument exists: '--follow'"));
    assert!(usage_error("cp logs -nfive").contains("'--nfive'"));
}

fn app_v() -> CommandLine {
    CommandLine { program: "app".to_owned(), args: vec!["-v".to_owned()] }
}

#[test]
fn check_takes_its_options_before_or_after_the_configuration() {
    let check = |config: Option<&str>, strict, format, color| Request::Check {
        config: config.map(PathBuf::from),
        options: CheckOptions { strict, format, color },
        main: None,
    };
    let with_main = Request::Check {
        config: Some("F".into()),
        options: CheckOptions { strict: true, format: Format::Human, color: Color::Auto },
        main: Some(app_v()),
    };
    assert_eq!(parsed("cp check -config F -strict -- app -v").unwrap(), with_main);
    usage_error("cp check --");
    for (line, expected) in [
        ("cp check", check(None, false, Format::Human, Color::Auto)),
        ("cp check -config F -strict", check(Some("F"), true, Format::Human, Color::Auto)),
        ("cp -config F check --format json", check(Some("F"), false, Format::Json, Color::Auto)),
        ("cp check -color=never", check(None, false, Format::Human, Color::Never)),
    ] {
        assert_eq!(parsed(line).unwrap(), expected, "{line}");
    }
}

#[test]
fn version_has_three_spellings() {
    for line in ["cp -version", "cp --version", "cp -v", "cp -V"] {
        assert_eq!(parsed(line).unwrap(), Request::Version, "{line}");
    }
}

#[test]
fn flags_that_exclude_each_other_are_usage_errors() {
    for line in [
        "cp -template -reload",
        "cp -version -ping",
        "cp -putenv A=1 -putmetric b=2",
        "cp -template -- app",
        "cp -reload check",
        "cp -template status",
        "cp -config A -config B",
        "cp schema -- app",
    ] {
        usage_error(line);
    }
}

#[test]
fn a_usage_error_names_what_is_wrong() {
    for (line, part) in [
        ("cp -out F", "-out is only for -template"),
        ("cp -all", "-all is only for -reload"),
        ("cp -maintenance enable -dry-run", "-dry-run is only for -reload"),
        ("cp -ping -wait 3s", "-wait is only for -ready"),
        ("cp -confg F", "'--config'"),
        ("cp -config", "value is required"),
        ("cp -maintenance maybe", "enable, disable"),
        ("cp -putenv 1A=x", "\"1A\" is not a variable's name"),
        ("cp -putenv =x", "\"\" is not a variable's name"),
        ("cp -putmetric a", "expected NAME=NUMBER"),
        ("cp -putmetric a=NaN", "expected a number"),
        ("cp -putmetric a=many", "found \"many\""),
        ("cp signal app SIGFOO", "expected a signal's name"),
        ("cp start", "<JOB>"),
        ("cp chek", "'check'"),
        ("cp /bin/app -x", "'-- /bin/app'"),
        ("cp --", "a command must follow \"--\""),
        ("cp -- ", "a command must follow \"--\""),
        ("cp -config F --", "a command must follow \"--\""),
    ] {
        let message = usage_error(line);
        assert!(message.contains(part), "{line}: {message}");
    }
}

#[test]
fn help_tells_where_the_configuration_is_looked_for() {
    for line in ["cp -h", "cp --help", "cp -help"] {
        let help = parsed(line).unwrap_err();
        assert!(!help.use_stderr(), "{line}");
        let text = help.render().to_string();
        for part in ["$CONTAINERPILOT", "/etc/containerpilot.json5", "/etc/containerpilot.d", "Examples:"] {
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}

#[test]
fn the_help_of_a_command_begins_like_its_line_in_the_list_of_commands() {
    let about = |definition: clap::Command, name: &str| {
        definition.find_subcommand(name).and_then(|command| command.get_about()).map(ToString::to_string)
    };
    let list = Arguments::command();
    for name in list.get_subcommands().map(clap::Command::get_name) {
        let listed = about(list.clone(), name);
        assert!(listed.is_some(), "{name}");
        assert_eq!(about(definition(), name), listed, "{name}");
    }
}

#[test]
fn the_parser_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn words_that_follow_a_named_configuration_are_left_over() {
    let leftover = |line: &str, is_configured| {
        let request = parse(line.split(' ').map(OsString::from), is_configured);
        let request = request.unwrap_or_else(|error| panic!("{line}: {error}"));
        let Request::Supervise { main: None, leftover, .. } = request else { panic!("{line}: {request:?}") };
        leftover.join(" ")
    };
    for (line, expected) in [
        ("cp -config F nginx -g daemon", "nginx -g daemon"),
        ("cp --config=F /bin/app -config G -version", "/bin/app -config G -version"),
        ("cp -config F app -- other", "app -- other"),
        ("cp -config F node", "node"),
    ] {
        assert_eq!(leftover(line, false), expected, "{line}");
    }
    assert_eq!(leftover("cp nginx -g daemon", true), "nginx -g daemon");
    assert_eq!(leftover("cp -config F", true), "");
}

#[test]
fn words_are_a_usage_error_where_no_configuration_is_named_or_something_else_is_asked_for() {
    for line in [
        "cp nginx",
        "cp -config F -ping nginx",
        "cp -config F -template nginx",
        "cp -config F chekc",
        "cp -config F check nginx",
        "cp -socket S -config F nginx",
        "cp -config F -nonsense nginx",
    ] {
        usage_error(line);
    }
    assert!(usage_error("cp -config F chekc").contains("'check'"));
}

#[test]
fn a_word_too_many_after_a_command_is_not_taken_for_a_program() {
    for line in
        ["cp why app once", "cp -config F why app once", "cp graph app", "cp -socket S signal a hup b"]
    {
        let error = usage_error(line);
        assert!(error.contains("unexpected argument") && !error.contains("'-- "), "{line}: {error}");
        assert!(!error.contains("put two dashes"), "{line}: {error}");
    }
    assert!(usage_error("cp nonsense").contains("'-- nonsense'"));
}

#[test]
fn a_switch_may_be_given_a_truth_value_as_in_go() {
    let render = Request::Render { config: Some("F".into()), destination: Destination::Stdout };
    assert_eq!(parsed("cp -version=true").unwrap(), Request::Version);
    assert_eq!(parsed("cp -config F -template=true -version=false").unwrap(), render);
    assert_eq!(parsed("cp -config F -template=false").unwrap(), supervise(Some("F"), None));
    assert_eq!(client("cp -reload=1 -all=0"), reload(false, false));
    usage_error("cp -version=yes");
}
