//! Hosts and ports, as URLs and plain addresses write them.

/// A host and the port behind it, if one is given. IPv6 addresses stand in brackets, which the result
/// does not have.
pub(super) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    if text.contains('@') {
        return Err("a user name or password is not taken here".to_owned());
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) =
            rest.split_once(']').ok_or_else(|| "expected `]` after the IPv6 address".to_owned())?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("expected an IPv6 address in brackets, found {host:?}"));
        }
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(format!("expected `:` and a port after `]`, found {after:?}")),
        }
    } else {
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address needs brackets, as in \"[::1]:8500\"".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() || !text.starts_with('[') && !host.chars().all(is_host_character) {
        return Err(format!("expected a host name or address, found {host:?}"));
    }
    let port = port.map(port_number).transpose()?;
    Ok((host.to_owned(), port))
}

fn is_host_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '.' | '_')
}

fn port_number(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0 && text.bytes().all(|digit| digit.is_ascii_digit()))
        .ok_or_else(|| format!("expected a port number from 1 to 65535, found {text:?}"))
}

/// What is wrong with an `http://` or `https://` URL, if anything is.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    let rest = ["http://", "https://"]
        .into_iter()
        .find_map(|scheme| strip_prefix_ignoring_case(url, scheme))
        .ok_or_else(|| "expected a URL that starts with `http://` or `https://`".to_owned())?;
    if let Some(bad) = url.chars().find(|character| character.is_whitespace() || character.is_control()) {
        return Err(format!("a URL cannot contain {bad:?}"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host_and_port(host).map(|_| ())
}

pub(super) fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_be_names_and_addresses_with_or_without_a_port() {
        assert_eq!(host_and_port("db"), Ok(("db".into(), None)));
        assert_eq!(host_and_port("10.0.0.1:80"), Ok(("10.0.0.1".into(), Some(80))));
        assert_eq!(host_and_port("[::1]:8500"), Ok(("::1".into(), Some(8500))));
        assert_eq!(host_and_port("[::1]"), Ok(("::1".into(), None)));
        for wrong in ["", ":80", "a:0", "a:65536", "a:+1", "a b:1", "::1", "[::1", "[x]:1", "[::1]x"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn urls_need_a_scheme_and_a_host() {
        assert_eq!(check_url("http://127.0.0.1:80/x?y"), Ok(()));
        assert_eq!(check_url("HTTPS://user:pw@host"), Ok(()));
        for wrong in ["", "127.0.0.1:80", "ftp://x", "http://", "http://a b", "http://a:x/"] {
            assert!(check_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_part_of_a_url_contains_spaces_or_control_characters() {
        for wrong in ["http://a/b c", "http://a/\u{7}", "http://a/?b=\n"] {
            assert!(
                check_url(wrong).is_err_and(|reason| reason.starts_with("a URL cannot contain")),
                "{wrong:?}"
            );
        }
    }
}
