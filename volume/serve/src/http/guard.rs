//! Access control. A request must name this server by its address: so a foreign page cannot reach
//! the server through another name (DNS rebinding). If the server has a token, a request must have
//! this token too.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use httparse::Header;
use subtle::ConstantTimeEq as _;

use super::Answer;
use crate::error::ServeError;

/// Shorter tokens can be guessed.
const TOKEN_MIN: usize = 16;

pub(super) struct Guard {
    /// The host part of the configured address; none on a unix socket.
    name: Option<String>,
    token: Option<String>,
}

impl Guard {
    pub(super) fn new(address: Option<&str>, token: Option<&str>) -> Result<Self, ServeError> {
        if let Some(token) = token
            && (token.len() < TOKEN_MIN || !token.bytes().all(|b| b.is_ascii_graphic()))
        {
            return Err(ServeError::HttpToken);
        }
        let name = address.map(|a| host_of(a).to_owned());
        Ok(Self { name, token: token.map(ToOwned::to_owned) })
    }

    pub(super) fn check(&self, headers: &[Header<'_>]) -> Result<(), Answer> {
        let mut hosts = headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Answer::refusal("400 Bad Request", "a request names one Host"));
        };
        let host = std::str::from_utf8(host.value).unwrap_or("");
        if !self.knows(host_of(host)) {
            let why = "this server is not known by that name: use its address, or localhost";
            return Err(Answer::refusal("421 Misdirected Request", why));
        }
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.iter().filter(|h| h.name.eq_ignore_ascii_case("authorization"));
        if given.map(|h| password(h.value)).any(|p| p.ct_eq(token.as_bytes()).into()) {
            return Ok(());
        }
        let why =
            "a token is needed: Authorization: Bearer TOKEN, or the token as password of any user";
        Err(Answer::refusal("401 Unauthorized", why)
            .with("WWW-Authenticate: Basic realm=\"seekless\", charset=\"UTF-8\""))
    }

    /// Accepts a name that only its owner can direct here: an address, `localhost`, or the
    /// configured name. A unix socket accepts any name, because no browser uses it.
    fn knows(&self, host: &str) -> bool {
        let Some(own) = &self.name else { return true };
        host.eq_ignore_ascii_case("localhost")
            || host.eq_ignore_ascii_case(own)
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    }
}

fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
}

/// The token of `Bearer TOKEN` or of `Basic base64(user:TOKEN)`; empty for anything else.
fn password(value: &[u8]) -> Vec<u8> {
    let Some((scheme, rest)) = std::str::from_utf8(value).ok().and_then(|v| v.split_once(' '))
    else {
        return Vec::new();
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return rest.as_bytes().to_vec();
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Vec::new();
    }
    let pair = BASE64_STANDARD.decode(rest).unwrap_or_default();
    let colon = pair.iter().position(|b| *b == b':');
    colon.map_or_else(Vec::new, |at| pair[at + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, headers: &[(&str, &str)]) -> &'static str {
        let headers: Vec<Header<'_>> =
            headers.iter().map(|(name, v)| Header { name, value: v.as_bytes() }).collect();
        guard.check(&headers).map_or_else(|a| &a.status[..3], |()| "200")
    }

    #[test]
    fn only_its_own_names_reach_it() {
        let guard = Guard::new(Some("disk.lan:80"), None).unwrap();
        for (host, expected) in [
            ("localhost", "200"),
            ("LOCALHOST:80", "200"),
            ("127.0.0.1:80", "200"),
            ("[::1]:80", "200"),
            ("[::1]", "200"),
            ("10.1.2.3", "200"),
            ("Disk.LAN:8080", "200"),
            ("evil.example", "421"),
            ("evil.example:80", "421"),
            ("localhost.evil.example", "421"),
            ("127.0.0.1.evil.example", "421"),
            ("127.0.0.1@evil.example", "421"),
            ("", "421"),
            (":80", "421"),
        ] {
            assert_eq!(status(&guard, &[("Host", host)]), expected, "{host}");
        }
        assert_eq!(status(&guard, &[]), "400");
        assert_eq!(status(&guard, &[("host", "localhost"), ("Host", "localhost")]), "400");
        let unix = Guard::new(None, None).unwrap();
        assert_eq!(status(&unix, &[("Host", "anything")]), "200");
    }

    #[test]
    fn the_token_is_asked_for_and_nothing_like_it_will_do() {
        let guard = Guard::new(Some("0.0.0.0:80"), Some("0123456789abcdef")).unwrap();
        // By hand: printf 'u:0123456789abcdef' | base64, and the same without the last letter.
        for (value, expected) in [
            ("Bearer 0123456789abcdef", "200"),
            ("bearer  0123456789abcdef ", "200"),
            ("Basic dTowMTIzNDU2Nzg5YWJjZGVm", "200"),
            ("Basic dTowMTIzNDU2Nzg5YWJjZGU=", "401"),
            ("Basic 0123456789abcdef", "401"),
            ("Basic", "401"),
            ("Bearer ", "401"),
            ("Bearer 0123456789abcdeg", "401"),
            ("Bearer 0123456789abcdef0", "401"),
            ("Digest 0123456789abcdef", "401"),
            ("", "401"),
        ] {
            let headers = [("host", "10.0.0.1"), ("authorization", value)];
            assert_eq!(status(&guard, &headers), expected, "{value}");
        }
        assert_eq!(status(&guard, &[("host", "10.0.0.1")]), "401");
        assert!(Guard::new(None, Some("short")).is_err());
        assert!(Guard::new(None, Some("0123456789 abcdef")).is_err());
    }
}
