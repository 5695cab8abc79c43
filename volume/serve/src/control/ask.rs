//! One question to the live page's server or a control socket, and its answer, over minimal HTTP.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::VolumeCommand;
use crate::Address;

/// The environment variable with the live page's token.
pub const TOKEN: &str = "SEEKLESS_HTTP_TOKEN";

/// Longest wait for a connection, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer answers are not from seekless.
const ANSWER_MAX: u64 = 16 << 20;
const HEADERS_MAX: usize = 64;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AskError {
    #[error("cannot reach {address}: is `seekless serve --http` running there?")]
    Unreachable {
        address: Address,
        #[source]
        source: io::Error,
    },
    #[error("{address} did not answer")]
    Silent {
        address: Address,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Refused(String),
    #[error("{address}: {why}")]
    Answer { address: Address, why: String },
    #[error("the token has a character that is not visible ASCII")]
    Token,
}

/// The JSON value at `path`.
pub fn ask<T: DeserializeOwned>(
    address: &Address,
    token: Option<&str>,
    path: &str,
) -> Result<T, AskError> {
    request(address, token, ("GET", path), &[])
}

/// The answer of a volume's server to a command.
pub(super) fn command<T: DeserializeOwned>(
    address: &Address,
    command: &VolumeCommand,
) -> Result<T, AskError> {
    let body = serde_json::to_vec(command)
        .map_err(|e| AskError::Answer { address: address.clone(), why: e.to_string() })?;
    request(address, None, ("POST", "/command"), &body)
}

fn request<T: DeserializeOwned>(
    address: &Address,
    token: Option<&str>,
    target: (&str, &str),
    sent: &[u8],
) -> Result<T, AskError> {
    let secret = match token {
        // Any other character could end the line and begin another.
        Some(token) if token.bytes().all(|b| b.is_ascii_graphic()) => {
            format!("Authorization: Bearer {token}\r\n")
        }
        Some(_) => return Err(AskError::Token),
        None => String::new(),
    };
    let unreachable = |source| AskError::Unreachable { address: address.clone(), source };
    let host = match address {
        Address::Tcp(host) => host.as_str(),
        Address::Unix(_) => "localhost",
    };
    let stream = address.connect(PATIENCE).map_err(unreachable)?;
    let answer = exchange(stream, host, &secret, target, sent);
    let answer = answer.map_err(|source| AskError::Silent { address: address.clone(), source })?;
    let strange = |why: String| AskError::Answer { address: address.clone(), why };
    let body = body(&answer).map_err(strange)?.map_err(AskError::Refused)?;
    serde_json::from_slice(body).map_err(|e| {
        strange(format!("{}: this version of seekless cannot read the answer: {e}", target.1))
    })
}

fn exchange(
    mut stream: UnixStream,
    host: &str,
    secret: &str,
    (method, path): (&str, &str),
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let length = body.len();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{secret}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The body, or why the server refuses. The outer error says that the form is wrong.
fn body(answer: &[u8]) -> Result<Result<&[u8], String>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(end)) = head.parse(answer) else {
        return Err("the answer is not HTTP".to_owned());
    };
    let body = answer.get(end..).unwrap_or_default();
    match head.code.unwrap_or_default() {
        200 => {}
        401 => return Err(format!("the server needs a valid token: set {TOKEN}")),
        409 => return Ok(Err(String::from_utf8_lossy(body).trim().to_owned())),
        421 => return Err("the server does not accept this host name: use its address".to_owned()),
        code => {
            let word = head.reason.unwrap_or_default();
            return Err(format!("the answer was {code} {word}; is this a seekless server?"));
        }
    }
    let length = head.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|h| str::from_utf8(h.value).ok()?.trim().parse::<usize>().ok());
    if length.is_some_and(|l| l != body.len()) {
        return Err("the answer was cut off".to_owned());
    }
    Ok(Ok(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_good_and_bad() {
        let good = body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(good, Ok(Ok(&b"hi"[..])));
        let refused = body(b"HTTP/1.1 409 Conflict\r\n\r\nnot now\n");
        assert_eq!(refused, Ok(Err("not now".to_owned())));
        for (answer, word) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi"[..], "cut off"),
            (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "token"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found"),
            (b"HTTP/1.1 200 OK", "HTTP"),
            (b"NBDMAGIC\r\n\r\n", "HTTP"),
            (b"\r\n\r\n", "HTTP"),
            (b"", "HTTP"),
        ] {
            let why = body(answer).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
