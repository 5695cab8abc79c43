//! Text files: plain, gzip or zstd, in UTF-8 or an older encoding.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use seekless_trace::whole_file::folder;

/// Most text of one file after decompression: a small file may grow without limit.
const TEXT_MAX: u64 = 1 << 30;

/// The text of a file, decompressed if its first bytes say so. Bytes that are not UTF-8 become
/// replacement characters: old descriptions have Latin-1 in their comments.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let raw = fs::read(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    let taken = match raw.as_slice() {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::Decoder::with_buffer(raw.as_slice())
            .and_then(|d| d.take(TEXT_MAX).read_to_end(&mut bytes)),
        [0x1f, 0x8b, ..] => {
            flate2::read::MultiGzDecoder::new(raw.as_slice()).take(TEXT_MAX).read_to_end(&mut bytes)
        }
        _ => {
            bytes = raw;
            Ok(bytes.len())
        }
    };
    if taken.with_context(cannot)? as u64 >= TEXT_MAX {
        bail!("{} holds more than {TEXT_MAX} bytes of text", path.display());
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The file that a text names, in the folder of the text: by its name, or the last part of it, in
/// any case of letters. Otherwise the file with the name of the text and the wanted ending, because
/// descriptions are often renamed.
pub fn beside(file: &Path, wanted: &str) -> anyhow::Result<PathBuf> {
    let folder = folder(file);
    let wanted = wanted.replace('\\', "/");
    let last = wanted.rsplit('/').next().unwrap_or(&wanted);
    for candidate in [folder.join(&wanted), folder.join(last)] {
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    let named = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let ending = last.rsplit_once('.').map_or("", |(_, e)| e);
    let renamed = format!("{named}.{ending}");
    let all = names(folder)?;
    let mut found = [last, &renamed].into_iter().filter_map(|wanted| {
        all.iter().find(|n| n.eq_ignore_ascii_case(wanted) && folder.join(n).is_file())
    });
    let found = found.next();
    found.map(|n| folder.join(n)).with_context(|| format!("no such file in {}", folder.display()))
}

/// The names in a folder, sorted, without names that are not UTF-8.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot read folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        names.extend(entry.with_context(cannot)?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_files_are_found_beside_in_any_case() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Quantum.MODEL"), "x").unwrap();
        let specs = folder.path().join("a.diskspecs");
        for wanted in ["quantum.model", "../disks/Quantum.model", "C:\\sim\\QUANTUM.MODEL"] {
            let found = beside(&specs, wanted).unwrap();
            assert_eq!(found, folder.path().join("Quantum.MODEL"), "{wanted}");
        }
        assert!(beside(&specs, "other.model").is_err());
        fs::write(folder.path().join("A.model"), "x").unwrap();
        assert_eq!(beside(&specs, "other.model").unwrap(), folder.path().join("A.model"));
    }

    #[test]
    fn compressed_and_old_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, zstd::encode_all(&b"hello\n"[..], 1).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), "hello\n");
        fs::write(&path, b"caf\xe9").unwrap();
        assert_eq!(read(&path).unwrap(), "caf\u{fffd}");
        fs::write(&path, [0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]).unwrap();
        assert!(read(&path).is_err());
    }
}
