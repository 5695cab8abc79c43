//! One question to a page's server or to a server's control socket, and its answer. It knows just enough HTTP
//! for that.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use seekless_serve::Address;
use serde::de::DeserializeOwned;

/// Where the token of the live page is looked for.
pub const TOKEN: &str = "SEEKLESS_HTTP_TOKEN";

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer answers are not ours.
const ANSWER_MAX: u64 = 16 << 20;

/// What stands at `path`, as JSON.
pub fn ask<T: DeserializeOwned>(
    address: &Address,
    token: Option<&str>,
    path: &str,
) -> anyhow::Result<T> {
    request(address, token, "GET", path)
}

/// What `path` answers to a command, as JSON.
pub fn command<T: DeserializeOwned>(address: &Address, path: &str) -> anyhow::Result<T> {
    request(address, None, "POST", path)
}

fn request<T: DeserializeOwned>(
    address: &Address,
    token: Option<&str>,
    method: &str,
    path: &str,
) -> anyhow::Result<T> {
    let answer = match address {
        Address::Tcp(host) => {
            let stream = connect(host).with_context(|| unreachable(address))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            exchange(stream, host, token, (method, path))
        }
        Address::Unix(socket) => {
            let stream = UnixStream::connect(socket).with_context(|| unreachable(address))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            exchange(stream, "localhost", token, (method, path))
        }
    };
    let answer = answer.with_context(|| format!("{address} did not answer"))?;
    let body = body(&answer).with_context(|| format!("{address}{path}"))?;
    serde_json::from_slice(body)
        .with_context(|| format!("{address}{path}: not what this version of seekless shows"))
}

fn unreachable(address: &Address) -> String {
    format!("cannot reach {address}: is `seekless serve --http` running there?")
}

fn connect(host: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::ErrorKind::NotFound.into();
    for at in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    token: Option<&str>,
    (method, path): (&str, &str),
) -> anyhow::Result<Vec<u8>> {
    let secret = match token {
        // Anything else could end the line and begin another.
        Some(token) if token.bytes().all(|b| b.is_ascii_graphic()) => {
            format!("Authorization: Bearer {token}\r\n")
        }
        Some(_) => bail!("the token holds what no token may: visible ASCII characters only"),
        None => String::new(),
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{secret}Connection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The body of a good answer.
fn body(answer: &[u8]) -> anyhow::Result<&[u8]> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.ok_or_else(|| anyhow!("it does not speak HTTP"))?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut words = head.lines().next().unwrap_or("").splitn(3, ' ');
    let (Some(_), Some(code)) = (words.next().filter(|v| v.starts_with("HTTP/1.")), words.next())
    else {
        bail!("it does not speak HTTP");
    };
    match code {
        "200" => {}
        "401" => bail!("a token is needed, or another one: set {TOKEN}"),
        "409" => bail!("{}", String::from_utf8_lossy(&answer[end + 4..]).trim()),
        "421" => bail!("it is not known there by this name: use its address"),
        _ => bail!("it answered {code} {}; is this a seekless server?", words.next().unwrap_or("")),
    }
    let body = &answer[end + 4..];
    let length = head.lines().find_map(|l| {
        let (name, value) = l.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    ensure!(length.is_none_or(|l| l == body.len()), "the answer was cut off");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_good_and_bad() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap(), b"hi");
        for (answer, word) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi"[..], "cut off"),
            (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "token"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found"),
            (b"HTTP/1.1 200 OK", "HTTP"),
            (b"NBDMAGIC\r\n\r\n", "HTTP"),
            (b"\r\n\r\n", "HTTP"),
            (b"", "HTTP"),
        ] {
            let error = body(answer).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
