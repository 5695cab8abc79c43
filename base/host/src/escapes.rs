//! Words as the kernel's tables write them, and as a shell reads them.

/// A word of fstab(5) or mountinfo without octal escapes: `\040` is a blank.
pub fn unescaped(word: &str) -> String {
    let mut pieces = word.split('\\');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.split_at_checked(3);
        let code = code.and_then(|(code, rest)| Some((u8::from_str_radix(code, 8).ok()?, rest)));
        let (byte, rest) = code.unwrap_or((b'\\', piece));
        bytes.push(byte);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A word for a shell, in quotes if one of its characters needs them.
pub fn quoted(word: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || "/._-+:@,=%".contains(c);
    if word.chars().all(fits) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_escapes_and_get_quotes() {
        assert_eq!(unescaped(r"/mnt/my\040disk\303\251"), "/mnt/my disk\u{e9}");
        assert_eq!(unescaped(r"\a\0\134\"), r"\a\0\\");
        assert_eq!(quoted("/mnt/a-b_1"), "/mnt/a-b_1");
        assert_eq!(quoted("/mnt/bob's disk"), r"'/mnt/bob'\''s disk'");
    }
}
