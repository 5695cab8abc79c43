//! Certificates by openssl. The tests of the program `seekless` use them, too.

use std::path::Path;
use std::process::Command;

/// Makes the certificates of an authority, of its server and of its client in a folder.
pub(crate) fn certificates(dir: &Path) {
    let script = r#"
        set -e
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem \
            -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
        for who in server client; do
            openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout $who-key.pem -out $who.csr
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=%sAuth\nbasicConstraints=CA:FALSE\n' $who > $who.ext
            openssl x509 -req -in $who.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile $who.ext -out $who-cert.pem
        done
        mkdir anonymous; cp ca-cert.pem anonymous/"#;
    let output = Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
