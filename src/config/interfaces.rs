//! Chooses the address to advertise or bind by `interfaces` selectors, with ContainerPilot's rules.
//! Parsing and choosing are pure; only [`system_addresses`] asks the system.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use nix::sys::socket::SockaddrStorage;

/// One address of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface that has it.
    pub interface: String,
    /// The address itself.
    pub address: IpAddr,
}

/// One entry of `interfaces`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// `inet`, `inet6`: any address of that family but loopback.
    Any(Family),
    /// `eth0`, `eth0:inet`, `eth0:inet6`: the first such address of that interface.
    Interface {
        /// Name of the interface.
        name: String,
        /// Which of its addresses count.
        family: Family,
    },
    /// `eth0[1]`: the address at that place, from 0, among all of that interface.
    Indexed {
        /// Name of the interface.
        name: String,
        /// Place in the order of its addresses.
        index: usize,
    },
    /// `10.0.0.0/16`, `fdc6::/48`: any address in that network.
    Network(Network),
    /// `static:IP`: that address, whether or not this machine has it.
    Static(IpAddr),
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

/// The default of `interfaces`: IPv4 of `eth0`, else any IPv4.
pub fn default_selectors() -> Vec<Selector> {
    vec![Selector::Interface { name: "eth0".to_owned(), family: Family::Inet }, Selector::Any(Family::Inet)]
}

/// The address that the first matching selector chooses. Addresses are tried by interface name, then by
/// their bytes, whatever their order in `addresses`. The error says what was asked for and what there is.
pub fn resolve(selectors: &[Selector], addresses: &[InterfaceAddress]) -> Result<IpAddr, String> {
    let mut ordered: Vec<&InterfaceAddress> = addresses.iter().collect();
    ordered.sort_by_key(|&found| (&found.interface, mapped(found.address)));
    selectors.iter().find_map(|selector| selector.choose(&ordered)).ok_or_else(|| {
        let selectors: Vec<String> = selectors.iter().map(ToString::to_string).collect();
        let mut addresses: Vec<String> =
            ordered.iter().map(|found| format!("{} {}", found.interface, found.address)).collect();
        if addresses.is_empty() {
            addresses.push("none".to_owned());
        }
        format!(
            "no address of this machine matches {}; it has {}",
            selectors.join(", "),
            addresses.join(", ")
        )
    })
}

/// Every address of this machine.
pub fn system_addresses() -> io::Result<Vec<InterfaceAddress>> {
    Ok(nix::ifaddrs::getifaddrs()?
        .filter_map(|entry| {
            let address = ip_of(&entry.address?)?;
            // The C library reports the label of an IPv4 alias (`eth0:1`); the interface is what precedes it.
            let interface = entry.interface_name.split(':').next().unwrap_or_default().to_owned();
            Some(InterfaceAddress { interface, address })
        })
        .collect())
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

/// Go holds IPv4 addresses in their IPv6-mapped form, so ContainerPilot sorts `::1` before `127.0.0.1` and
/// `127.0.0.1` before `fe80::1`. `eth0[1]` depends on it.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl Selector {
    /// Reads one entry of `interfaces`; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("static:") {
            return address.parse().map(Self::Static).map_err(|_| {
                format!("{text:?}: expected an IP address after \"static:\", found {address:?}")
            });
        }
        if text.contains('/') {
            return Network::parse(text).map(Self::Network);
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(format!(
                "{text:?} is a bare address; write \"static:{text}\" or a network such as \"{text}/24\""
            ));
        }
        if let Some(family) = Family::parse(text) {
            return Ok(Self::Any(family));
        }
        if let Some((name, family)) = text.split_once(':') {
            let family = Family::parse(family).ok_or_else(|| {
                format!("{text:?}: expected \"inet\" or \"inet6\" after the colon, found {family:?}")
            })?;
            return Ok(Self::Interface { name: interface_name(name, text)?, family });
        }
        if let Some((name, index)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            let index = whole_number(index).ok_or_else(|| {
                format!("{text:?}: expected a whole number ≥ 0 in the brackets, found {index:?}")
            })?;
            return Ok(Self::Indexed { name: interface_name(name, text)?, index });
        }
        Ok(Self::Interface { name: interface_name(text, text)?, family: Family::Inet })
    }

    fn choose(&self, ordered: &[&InterfaceAddress]) -> Option<IpAddr> {
        let first = |wanted: &dyn Fn(&InterfaceAddress) -> bool| {
            ordered.iter().find(|candidate| wanted(candidate)).map(|found| found.address)
        };
        match self {
            Self::Any(family) => first(&|candidate| {
                family.contains(candidate.address)
                    && !candidate.address.is_loopback()
                    && !is_link_local(candidate.address)
            }),
            Self::Interface { name, family } => {
                first(&|candidate| candidate.interface == *name && family.contains(candidate.address))
            }
            Self::Indexed { name, index } => ordered
                .iter()
                .filter(|candidate| candidate.interface == *name)
                .nth(*index)
                .map(|found| found.address),
            // A link-local address means something on its own link only: it must be asked for.
            Self::Network(network) => first(&|candidate| {
                network.contains(candidate.address)
                    && (is_link_local(network.base) || !is_link_local(candidate.address))
            }),
            Self::Static(address) => Some(*address),
        }
    }
}

/// The kernel's rules for interface names: 1 to 15 bytes without blanks, slashes and colons.
fn interface_name(name: &str, selector: &str) -> Result<String, String> {
    let is_valid = (1..=15).contains(&name.len())
        && !name
            .contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '[' | ']'));
    if is_valid {
        return Ok(name.to_owned());
    }
    Err(format!(
        "{selector:?}: expected an interface (\"eth0\", \"eth0:inet6\", \"eth0[1]\"), a network (\"10.0.0.0/16\"), \
         \"inet\", \"inet6\" or \"static:ADDRESS\""
    ))
}

/// Digits only: `parse` alone would take a sign too.
fn whole_number<N: FromStr>(digits: &str) -> Option<N> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

impl Family {
    fn parse(text: &str) -> Option<Self> {
        [Self::Inet, Self::Inet6].into_iter().find(|family| family.to_string() == text)
    }

    fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::Inet => address.is_ipv4(),
            Self::Inet6 => address.is_ipv6(),
        }
    }
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?}: expected a network such as \"10.0.0.0/16\" or \"fdc6::/48\"");
        let (base, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let base: IpAddr = base.parse().map_err(|_| malformed())?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        match whole_number(prefix) {
            Some(prefix) if prefix <= bits => Ok(Self { base, prefix }),
            Some(_) | None => {
                Err(format!("{text:?}: expected 0 to {bits} bits after the slash, found {prefix:?}"))
            }
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                same_prefix(base.to_bits().into(), address.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                same_prefix(base.to_bits(), address.to_bits(), 128, self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, width: u8, prefix: u8) -> bool {
    (a ^ b).checked_shr(u32::from(width.saturating_sub(prefix))).unwrap_or(0) == 0
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(family) => write!(f, "{family}"),
            Self::Interface { name, family } => write!(f, "{name}:{family}"),
            Self::Indexed { name, index } => write!(f, "{name}[{index}]"),
            Self::Network(Network { base, prefix }) => write!(f, "{base}/{prefix}"),
            Self::Static(address) => write!(f, "static:{address}"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Inet6 => "inet6",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deliberately out of order.
    const MACHINE: [(&str, &str); 9] = [
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("eth1", "10.1.0.201"),
        ("eth0", "fe80::1"),
        ("eth0", "10.2.0.1"),
        ("eth1", "fdc6:238c:c4bc::1"),
        ("eth0", "192.168.1.100"),
        ("eth2", "10.1.0.200"),
        ("eth0", "10.0.0.100"),
    ];

    fn addresses(of: &[(&str, &str)]) -> Vec<InterfaceAddress> {
        of.iter()
            .map(|(interface, address)| InterfaceAddress {
                interface: (*interface).to_owned(),
                address: address.parse().unwrap(),
            })
            .collect()
    }

    fn choose(selectors: &[&str], of: &[(&str, &str)]) -> Result<String, String> {
        let selectors: Vec<_> = selectors.iter().map(|text| Selector::parse(text).unwrap()).collect();
        resolve(&selectors, &addresses(of)).map(|ip| ip.to_string())
    }

    #[test]
    fn each_kind_of_selector_chooses_as_in_containerpilot() {
        for (selector, chosen) in [
            ("eth0", "10.0.0.100"),
            ("eth0:inet", "10.0.0.100"),
            ("eth0:inet6", "fe80::1"),
            ("eth0[0]", "10.0.0.100"),
            ("eth0[1]", "10.2.0.1"),
            ("eth0[2]", "192.168.1.100"),
            ("eth0[3]", "fe80::1"),
            ("inet", "10.0.0.100"),
            ("inet6", "fdc6:238c:c4bc::1"),
            ("10.1.0.0/16", "10.1.0.201"),
            ("10.1.2.3/16", "10.1.0.201"),
            ("fdc6:238c:c4bc::/48", "fdc6:238c:c4bc::1"),
            ("0.0.0.0/0", "10.0.0.100"),
            ("10.1.0.200/32", "10.1.0.200"),
            ("static:203.0.113.9", "203.0.113.9"),
            ("static:2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(choose(&[selector], &MACHINE).as_deref(), Ok(chosen), "{selector}");
        }
    }

    #[test]
    fn the_first_selector_that_matches_wins() {
        assert_eq!(choose(&["eth9", "eth1", "inet"], &MACHINE).as_deref(), Ok("10.1.0.201"));
        assert_eq!(choose(&["172.16.0.0/12", "inet6"], &MACHINE).as_deref(), Ok("fdc6:238c:c4bc::1"));
    }

    #[test]
    fn the_default_prefers_eth0() {
        let found = resolve(&default_selectors(), &addresses(&MACHINE)).unwrap();
        assert_eq!(found.to_string(), "10.0.0.100");
        let found = resolve(&default_selectors(), &addresses(&[("wlan0", "10.9.9.9")])).unwrap();
        assert_eq!(found.to_string(), "10.9.9.9");
    }

    #[test]
    fn loopback_is_chosen_only_by_name_or_network() {
        let only_loopback = [("lo", "127.0.0.1"), ("lo", "::1")];
        assert!(choose(&["inet", "inet6"], &only_loopback).is_err());
        assert_eq!(choose(&["lo"], &only_loopback).as_deref(), Ok("127.0.0.1"));
        assert_eq!(choose(&["lo:inet6"], &only_loopback).as_deref(), Ok("::1"));
        assert_eq!(choose(&["lo[0]"], &only_loopback).as_deref(), Ok("::1"));
        assert_eq!(choose(&["127.0.0.0/8"], &only_loopback).as_deref(), Ok("127.0.0.1"));
    }

    #[test]
    fn link_local_addresses_must_be_asked_for() {
        let link_local = [("eth0", "fe80::1")];
        assert!(choose(&["inet6", "::/0"], &link_local).is_err());
        assert_eq!(choose(&["eth0:inet6"], &link_local).as_deref(), Ok("fe80::1"));
        assert_eq!(choose(&["fe80::/10"], &link_local).as_deref(), Ok("fe80::1"));
    }

    #[test]
    fn without_a_match_the_error_lists_what_there_is() {
        assert_eq!(
            choose(&["eth7", "inet6"], &[("lo", "127.0.0.1"), ("eth0", "10.0.0.2")]),
            Err("no address of this machine matches eth7:inet, inet6; it has eth0 10.0.0.2, lo 127.0.0.1"
                .into())
        );
        assert_eq!(
            choose(&["inet"], &[]),
            Err("no address of this machine matches inet; it has none".into())
        );
    }

    #[test]
    fn a_malformed_selector_is_told_what_is_wrong() {
        for (text, part) in [
            ("", "expected an interface"),
            ("eth0:inet4", "found \"inet4\""),
            ("eth0[x]", "found \"x\""),
            ("eth0[-1]", "found \"-1\""),
            ("eth0[+1]", "found \"+1\""),
            ("10.0.0.0/+8", "expected 0 to 32 bits"),
            ("eth0[1", "expected an interface"),
            ("eth 0", "expected an interface"),
            ("averyveryverylongname", "expected an interface"),
            ("10.0.0.0/33", "expected 0 to 32 bits"),
            ("fdc6::/129", "expected 0 to 128 bits"),
            ("eth0/16", "expected a network"),
            ("10.0.0.1", "\"static:10.0.0.1\""),
            ("::1", "\"static:::1\""),
            ("static:localhost", "found \"localhost\""),
        ] {
            let error = Selector::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn interface_names_of_bridges_and_vlans_are_accepted() {
        for name in ["br-1a2b3c", "eth0.100", "veth1@if2", "wg0"] {
            let expected = Selector::Interface { name: name.to_owned(), family: Family::Inet };
            assert_eq!(Selector::parse(name), Ok(expected));
        }
    }

    #[test]
    fn this_machine_has_a_loopback_address() {
        let found = system_addresses().unwrap();
        assert!(found.iter().any(|entry| entry.address.is_loopback()), "{found:?}");
    }
}
