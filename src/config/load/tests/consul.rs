//! Where Consul is, from the file and from the environment.

use super::*;

fn consul(text: &str, variables: &[(&str, &str)]) -> Option<crate::config::spec::ConsulSpec> {
    load_text("test.json5", text, &env(variables), &system())
        .unwrap_or_else(|report| panic!("{report}"))
        .spec
        .consul
}

fn tcp(tls: bool, host: &str, port: u16) -> ConsulAddress {
    ConsulAddress::Tcp { tls, host: host.into(), port }
}

#[test]
fn consul_is_found_under_all_its_addresses() {
    let address = |text: &str| consul(&format!("{{consul: {text}}}"), &[]).unwrap().address;
    assert_eq!(address("'consul:8500'"), tcp(false, "consul", 8500));
    assert_eq!(address("'http://consul:8500/'"), tcp(false, "consul", 8500));
    assert_eq!(address("'https://[::1]:8501'"), tcp(true, "::1", 8501));
    assert_eq!(address("'https://consul.example'"), tcp(true, "consul.example", 443));
    assert_eq!(address("'unix:///run/consul.sock'"), ConsulAddress::Unix("/run/consul.sock".into()));
    assert_eq!(address("{address: 'c:1', scheme: 'https'}"), tcp(true, "c", 1));
    assert_eq!(address("{token: 'x'}"), tcp(false, "127.0.0.1", 8500));
    assert_eq!(address("''"), tcp(false, "127.0.0.1", 8500));
    assert_eq!(consul("{}", &[]), None);
    assert_eq!(consul("{consul: null}", &[]), None);
}

#[test]
fn consul_without_a_host_is_at_localhost_and_warned_of() {
    for (text, address) in [
        ("':8500'", tcp(false, "localhost", 8500)),
        ("'https://:8501'", tcp(true, "localhost", 8501)),
        ("{address: ':8500'}", tcp(false, "localhost", 8500)),
    ] {
        let loaded = loaded(&format!("{{consul: {text}, jobs: [{{exec: 'a'}}]}}"));
        assert_eq!(loaded.spec.consul.unwrap().address, address);
        let warnings: Vec<String> = loaded.warnings.lines().map(|(_, line)| line).collect();
        assert!(warnings.len() == 1 && warnings[0].contains("no host is given"), "{warnings:?}");
    }
    assert_eq!(consul("{}", &[("CONSUL_HTTP_ADDR", ":1")]).unwrap().address, tcp(false, "localhost", 1));
    for wrong in [":", ":x", "https://"] {
        assert_eq!(errors(&format!("{{consul: '{wrong}'}}")).len(), 1, "{wrong}");
    }
}

#[test]
fn the_environment_overrides_consul_but_not_its_address() {
    let variables = [
        ("CONSUL_HTTP_ADDR", "https://env:1"),
        ("CONSUL_HTTP_TOKEN", "from-env"),
        ("CONSUL_CACERT", "/ca"),
        ("CONSUL_CAPATH", "/cas"),
        ("CONSUL_CLIENT_CERT", "/cert"),
        ("CONSUL_CLIENT_KEY", "/key"),
        ("CONSUL_TLS_SERVER_NAME", "name"),
        ("CONSUL_HTTP_SSL_VERIFY", "false"),
    ];
    let spec =
        consul("{consul: {address: 'file:2', token: 'from-file', tls: {verify: true}}}", &variables).unwrap();
    assert_eq!(spec.address, tcp(false, "file", 2));
    assert_eq!(spec.token.unwrap().expose(), "from-env");
    assert_eq!(spec.tls.ca_file, Some("/ca".into()));
    assert_eq!(spec.tls.ca_path, Some("/cas".into()));
    assert_eq!(spec.tls.client_cert, Some("/cert".into()));
    assert_eq!(spec.tls.client_key, Some("/key".into()));
    assert_eq!(spec.tls.server_name, Some("name".into()));
    assert!(!spec.tls.verify);
    for (text, verify) in [("1", true), ("t", true), ("TRUE", true), ("0", false), ("F", false)] {
        let spec = consul("{consul: 'a:1'}", &[("CONSUL_HTTP_SSL_VERIFY", text)]).unwrap();
        assert_eq!(spec.tls.verify, verify, "{text}");
    }
    assert_eq!(consul("{}", &variables).unwrap().address, tcp(true, "env", 1));
    assert_eq!(consul("{consul: {}}", &variables).unwrap().address, tcp(true, "env", 1));
}

#[test]
fn a_missing_file_of_a_variable_is_found_like_one_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.json5");
    fs::write(&path, "{consul: 'a:1', jobs: [{exec: '/bin/sh'}]}").unwrap();
    let found = |file: &str| {
        let report = check(None, &path, &env(&[("CONSUL_CACERT", file)]), &system());
        report.lines().map(|(_, line)| line).collect::<Vec<_>>()
    };
    assert_eq!(
        found("/no/such"),
        ["environment variable CONSUL_CACERT: \"/no/such\" does not exist on this machine"]
    );
    assert_eq!(found("/dev/null"), [""; 0]);
}

#[test]
fn a_token_has_no_white_space_around_it() {
    for (text, variable) in [
        ("{consul: {token: ' s3cr3t\\r\\n'}}", ""),
        ("{consul: {token: 's3cr3t'}}", " \n"),
        ("{consul: {token: 'other'}}", "s3cr3t\n"),
    ] {
        let spec = consul(text, &[("CONSUL_HTTP_TOKEN", variable)]).unwrap();
        assert_eq!(spec.token.unwrap().expose(), "s3cr3t", "{text} {variable:?}");
    }
}

#[test]
fn a_token_that_no_header_can_have_is_refused_and_not_shown() {
    for (text, variable, expected) in [
        ("{consul: {token: 's3cr3t\\nx'}}", "", "consul.token: a token has no control characters"),
        ("{consul: {token: 's3cr3tü'}}", "", "consul.token: a token has no control characters"),
        ("{consul: {}}", "s3cr3t\nx", "environment variable CONSUL_HTTP_TOKEN: a token has no control"),
    ] {
        let variables = env(&[("CONSUL_HTTP_TOKEN", variable)]);
        let report = load_text("test.json5", text, &variables, &system()).unwrap_err().to_string();
        assert!(report.contains(expected) && !report.contains("s3cr3t"), "{report}");
    }
}

#[test]
fn an_address_of_the_environment_has_the_tls_that_the_configuration_asks_for() {
    let address = |scheme: &str, variable: &str| {
        let text = format!("{{consul: {{scheme: '{scheme}', token: 't'}}}}");
        let loaded = load_text("test.json5", &text, &env(&[("CONSUL_HTTP_ADDR", variable)]), &system());
        loaded.map(|loaded| loaded.spec.consul.unwrap().address)
    };
    assert_eq!(address("https", "env:1").unwrap(), tcp(true, "env", 1));
    assert_eq!(address("https", "https://env:1").unwrap(), tcp(true, "env", 1));
    assert_eq!(address("http", "https://env:1").unwrap(), tcp(true, "env", 1), "the environment wins");
    assert_eq!(address("http", "env:1").unwrap(), tcp(false, "env", 1));
    let refused = address("https", "http://env:1").unwrap_err().to_string();
    assert!(refused.contains("`scheme` says otherwise"), "{refused}");
}

#[test]
fn a_wrong_variable_of_the_environment_is_named() {
    let report = load_text("t", "{}", &env(&[("CONSUL_HTTP_ADDR", "a:b")]), &system()).unwrap_err();
    assert!(report.to_string().contains("environment variable CONSUL_HTTP_ADDR"), "{report}");
    let report =
        load_text("t", "{consul: 'a:1'}", &env(&[("CONSUL_HTTP_SSL_VERIFY", "x")]), &system()).unwrap_err();
    assert!(report.to_string().contains("CONSUL_HTTP_SSL_VERIFY"), "{report}");
}

#[test]
fn a_port_without_consul_needs_no_network() {
    let text = "{jobs: [{name: 'a', exec: 'a', port: 80, health: {tcp: 'a:80'}}]}";
    let loaded = load_text("t", text, &env(&[]), &System::default()).unwrap();
    assert_eq!(loaded.warnings.lines().count(), 1);
    let with_consul = text.replace("{jobs", "{consul: 'a:1', jobs");
    assert!(load_text("t", &with_consul, &env(&[]), &System::default()).is_err());
}
