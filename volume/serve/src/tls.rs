//! TLS to the server of a home, and TLS for NBD clients: certificates, and one thread for each
//! encrypted connection. The thread carries plain bytes between the client's socket and a socket
//! pair, whose other end the volume's thread serves like any client. So the volume's thread encrypts
//! nothing.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use seekless_host::{HostError, cannot};

use crate::backend::remote::NbdUri;
use crate::client::Stream;
use crate::error::ServeError;
use crate::server::CLIENTS_MAX;

/// Most bytes carried at once, in either direction.
const CARRY_BYTES: usize = 64 << 10;
/// Stack of a connection's thread. All of it is resident where memory is locked.
const STACK_BYTES: usize = 256 << 10;
/// A client that the volume has left may take the last bytes for this time after each step.
const LINGER: Duration = Duration::from_secs(10);
/// Most threads. With more of them than clients, a client that the volume has left has no time.
pub(crate) const CARRIERS_MAX: usize = CLIENTS_MAX + CLIENTS_MAX / 4;
/// Interval of looks whether the volume has left.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Files in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with the chain below its authority.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// Authorities for clients: only a client with a certificate of one of them may connect.
    pub ca: Option<PathBuf>,
}

/// The settings of TLS for all connections.
#[derive(Clone)]
pub(crate) struct Tls(Arc<Settings>);

struct Settings {
    config: Arc<ServerConfig>,
    /// Each connection's thread has a clone, so they are counted.
    carriers: Arc<()>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, ServeError> {
        let certs = certificates(&files.cert).map_err(|e| bad(&files.cert)(&e))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| bad(&files.key)(&e))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| bad(&files.cert)(&e))?;
        let config = match &files.ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                config.with_client_cert_verifier(verifier.map_err(|e| bad(path)(&e))?)
            }
        };
        let config = config.with_single_cert(certs, key).map_err(|e| bad(&files.cert)(&e))?;
        Ok(Self(Arc::new(Settings { config: Arc::new(config), carriers: Arc::new(()) })))
    }

    /// Starts TLS on a client's socket, and returns the socket with the plain bytes. Both sockets do
    /// not block.
    pub(crate) fn wrap(&self, client: OwnedFd) -> Result<OwnedFd, ServeError> {
        if Arc::strong_count(&self.0.carriers) > CARRIERS_MAX {
            return Err(cannot("begin with TLS")(io::Error::from(io::ErrorKind::WouldBlock)).into());
        }
        let failed = |e| cannot("begin with TLS")(io::Error::other(e));
        let mut tls = ServerConnection::new(Arc::clone(&self.0.config)).map_err(failed)?;
        // Never more than what is carried at once.
        tls.set_buffer_limit(None);
        let (volume, plain) = UnixStream::pair().map_err(cannot("make a pair of sockets"))?;
        for socket in [&volume, &plain] {
            socket.set_nonblocking(true).map_err(cannot("make a pair of sockets"))?;
        }
        // Reads and writes are the same for all kinds of sockets.
        let client = UnixStream::from(client);
        let carrier = TlsRelay {
            tls,
            client,
            volume,
            ready: Vec::new(),
            client_ended: false,
            ended: false,
            sent: Instant::now(),
            all: Arc::clone(&self.0.carriers),
        };
        std::thread::Builder::new()
            .name("seekless-tls".into())
            .stack_size(STACK_BYTES)
            // A client that breaks the protocol loses its connection; nobody else notices.
            .spawn(move || drop(carrier.carry()))
            .map_err(cannot("start a thread for TLS"))?;
        Ok(plain.into())
    }
}

/// A file that TLS cannot use.
fn bad(path: &Path) -> impl FnOnce(&dyn fmt::Display) -> ServeError {
    let path = path.to_owned();
    move |e| HostError::Refused { path, why: format!("cannot be used for TLS: {e}") }.into()
}

fn roots(path: &Path) -> Result<RootCertStore, ServeError> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(path).map_err(|e| bad(path)(&e))? {
        roots.add(cert).map_err(|e| bad(path)(&e))?;
    }
    Ok(roots)
}

/// TLS to the server of a home.
#[derive(Clone)]
pub(crate) struct TlsHome {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsHome {
    /// As an address asks for it.
    pub(crate) fn of(uri: &NbdUri) -> Result<Option<Self>, ServeError> {
        let tls = uri.tls.as_ref();
        tls.map(|tls| Self::load(tls.folder.as_deref(), &tls.name)).transpose()
    }

    /// Reads the certificates of a folder, with the names that other programs give them: `ca-cert.pem`
    /// is the server's authority, `client-cert.pem` and `client-key.pem` say who we are, where the
    /// server asks. Without a folder, the server's authority is one of the system's.
    fn load(folder: Option<&Path>, name: &str) -> Result<Self, ServeError> {
        let at = folder.unwrap_or_else(|| Path::new("the system's certificates"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| bad(at)(&e))?;
        let (roots, own) = match folder {
            None => {
                let mut roots = RootCertStore::empty();
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = "no authority was found: add ?tls-certificates=FOLDER to the address";
                    return Err(bad(at)(&why));
                }
                (roots, None)
            }
            Some(folder) => {
                let own = folder.join("client-cert.pem");
                let own = own.exists().then(|| (own, folder.join("client-key.pem")));
                (roots(&folder.join("ca-cert.pem"))?, own)
            }
        };
        let config = config.with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let certs = certificates(&cert).map_err(|e| bad(&cert)(&e))?;
                let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| bad(&key)(&e))?;
                config.with_client_auth_cert(certs, key).map_err(|e| bad(&cert)(&e))?
            }
        };
        let name = ServerName::try_from(name.to_owned()).map_err(|e| bad(Path::new(name))(&e))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The same stream, through TLS.
    pub(crate) fn wrap(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        Ok(Box::new(StreamOwned::new(tls.map_err(io::Error::other)?, stream)))
    }
}

fn certificates(
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    let certs = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    if certs.is_empty() { Err(rustls::pki_types::pem::Error::NoItemsFound) } else { Ok(certs) }
}

/// One encrypted connection.
struct TlsRelay {
    tls: ServerConnection,
    client: UnixStream,
    /// The end of the pair that leads to the volume.
    volume: UnixStream,
    /// Plain bytes for the volume.
    ready: Vec<u8>,
    /// The client sends no more.
    client_ended: bool,
    /// The volume sends no more.
    ended: bool,
    /// The client took its latest bytes.
    sent: Instant,
    /// One for each connection.
    all: Arc<()>,
}

impl TlsRelay {
    /// Carries bytes until one end closes the connection.
    fn carry(mut self) -> io::Result<()> {
        let mut bytes = vec![0; CARRY_BYTES];
        loop {
            let mut moved = self.receive()?;
            moved |= self.pass_on(&mut bytes)?;
            moved |= self.take_replies(&mut bytes)?;
            moved |= self.send()?;
            if self.ended && !self.tls.wants_write() {
                return Ok(());
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    fn wants_client(&self) -> bool {
        !self.client_ended && self.ready.is_empty() && self.tls.wants_read()
    }

    fn wants_volume(&self) -> bool {
        !self.ended && !self.tls.is_handshaking() && !self.tls.wants_write()
    }

    fn receive(&mut self) -> io::Result<bool> {
        if !self.wants_client() {
            return Ok(false);
        }
        let Some(n) = unless_blocked(self.tls.read_tls(&mut self.client))? else {
            return Ok(false);
        };
        self.client_ended = n == 0;
        if let Err(e) = self.tls.process_new_packets() {
            // The alert says why.
            let _ = self.send();
            return Err(io::Error::other(e));
        }
        if self.client_ended && self.tls.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }

    fn pass_on(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        let mut moved = false;
        if self.ready.is_empty() {
            match self.tls.reader().read(bytes) {
                Ok(0) => self.client_ended = true,
                Ok(n) => self.ready.extend_from_slice(bytes.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // It left without a word.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => self.client_ended = true,
                Err(e) => return Err(e),
            }
            moved = !self.ready.is_empty();
        }
        if !self.ready.is_empty()
            && let Some(n) = unless_blocked(self.volume.write(&self.ready))?
        {
            self.ready.drain(..n);
            moved = true;
        }
        if self.client_ended && self.ready.is_empty() {
            // The volume sees the end, and closes its own end after the last reply.
            let _ = self.volume.shutdown(std::net::Shutdown::Write);
        }
        Ok(moved)
    }

    fn take_replies(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        if !self.wants_volume() {
            return Ok(false);
        }
        match unless_blocked(self.volume.read(bytes))? {
            None => return Ok(false),
            Some(0) => {
                self.ended = true;
                self.tls.send_close_notify();
            }
            Some(n) => self.tls.writer().write_all(bytes.get(..n).unwrap_or_default())?,
        }
        Ok(true)
    }

    fn send(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while self.tls.wants_write() {
            match unless_blocked(self.tls.write_tls(&mut self.client))? {
                Some(_) => moved = true,
                None => break,
            }
        }
        if moved {
            self.sent = Instant::now();
        }
        Ok(moved)
    }

    /// True if the volume has closed its end, and the client does not read the last bytes. Such a
    /// client could keep this thread for ever, because no limit counts the connection any more.
    fn is_left(&self) -> bool {
        let crowded = Arc::strong_count(&self.all) > CLIENTS_MAX;
        if !crowded && self.sent.elapsed() < LINGER {
            return false;
        }
        let mut volume = [PollFd::new(&self.volume, PollFlags::empty())];
        let looked = poll(&mut volume, Some(&Timespec::default()));
        looked.is_ok() && volume[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    fn wait(&self) -> io::Result<()> {
        let flags = |input, output| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, input);
            flags.set(PollFlags::OUT, output);
            flags
        };
        let (client, volume) = (self.client.as_fd(), self.volume.as_fd());
        let mut sockets = [
            PollFd::from_borrowed_fd(client, flags(self.wants_client(), self.tls.wants_write())),
            PollFd::from_borrowed_fd(volume, flags(self.wants_volume(), !self.ready.is_empty())),
        ];
        // The kernel reports a closed end in any case. So watch the volume only while this thread
        // can take its bytes.
        let greeting = self.tls.is_handshaking();
        let both = greeting || self.wants_volume() || !self.ready.is_empty();
        let limit = (!both).then_some(&LOOK_EVERY);
        match poll(if both { &mut sockets } else { &mut sockets[..1] }, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let gone =
            |socket: &PollFd<'_>| socket.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let dead = gone(&sockets[0]) && !self.wants_client()
            || gone(&sockets[1]) && greeting
            || !both && self.is_left();
        if dead { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// The result of a call on a socket; `None` if it would block.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A client fills its socket and takes nothing; then the volume leaves.
    #[test]
    fn a_client_that_takes_nothing_keeps_no_thread() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let args = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem \
            -out ca-cert.pem -addext basicConstraints=critical,CA:FALSE \
            -addext subjectAltName=DNS:localhost";
        let made = Command::new("openssl").args(args.split_whitespace()).current_dir(dir).output();
        if !made.is_ok_and(|made| made.status.success()) {
            eprintln!("SKIPPED a_client_that_takes_nothing_keeps_no_thread: no openssl");
            return;
        }
        let (cert, key) = (dir.join("ca-cert.pem"), dir.join("key.pem"));
        let tls = Tls::load(&TlsFiles { cert, key, ca: None }).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut volume = UnixStream::from(tls.wrap(near.into()).unwrap());
        volume.set_nonblocking(false).unwrap();
        let home = TlsHome::load(Some(dir), "localhost").unwrap();
        let mut client = home.wrap(Box::new(far)).unwrap();
        client.write_all(b"hello").unwrap();
        volume.read_exact(&mut [0; 5]).unwrap();
        volume.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        while volume.write(&[0; 4096]).is_ok() {}
        drop(volume);
        let carriers = || Arc::strong_count(&tls.0.carriers) - 1;
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(carriers(), 1, "a slow client has time");
        let others: Vec<_> = (0..CARRIERS_MAX).map(|_| Arc::clone(&tls.0.carriers)).collect();
        let (_far, near) = UnixStream::pair().unwrap();
        assert!(tls.wrap(near.into()).is_err(), "no thread beyond the limit");
        let began = Instant::now();
        while carriers() > others.len() {
            assert!(began.elapsed() < LINGER / 2, "it stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
