//! Who may connect over NBD, from arguments.

use std::path::{Path, PathBuf};

use seekless_cli::args::number;
use seekless_serve::{Builder, TlsFiles};

/// Who may connect over NBD.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AccessArgs {
    /// Require TLS over TCP: the server's certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Who may connect")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Who may connect")]
    tls_key: Option<PathBuf>,
    /// Only clients with a certificate of this authority may connect
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Who may connect")]
    tls_ca: Option<PathBuf>,
    /// Let every machine that reaches the TCP address read and write the volume, without TLS
    #[arg(long, conflicts_with = "tls_cert", help_heading = "Who may connect")]
    insecure: bool,
    /// Let this user connect to unix sockets too, beside root and you; may be repeated
    #[arg(long, value_name = "UID", value_parser = number::<u32>("the number of a user", 0.., 1000), help_heading = "Who may connect")]
    nbd_user: Vec<u32>,
}

impl AccessArgs {
    /// The files that these name.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.tls_cert, &self.tls_key, &self.tls_ca];
        files.into_iter().filter_map(Option::as_deref)
    }

    pub(super) fn apply(&self, builder: Builder) -> Builder {
        let pair = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = pair.map(|(cert, key)| TlsFiles { cert, key, ca: self.tls_ca.clone() });
        builder.insecure(self.insecure).users(self.nbd_user.clone()).tls(tls)
    }
}
