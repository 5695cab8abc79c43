//! Parses the inputs found by fuzzing and its seeds again, and pieces of valid files in any order.

use std::path::Path;

use proptest::prelude::*;
use seekless_workload::{fuzzing, presets};

fn each(folder: &str, read: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        read(&std::fs::read(file).unwrap());
    }
}

#[test]
fn the_corpus_does_no_harm() {
    each("wml", fuzzing::wml);
    each("personality", fuzzing::personality);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_text_does_harm(words in prop::collection::vec(prop::sample::select(vec![
        "set", "$a", "=", "define", "fileset", "process", "thread", "flowop", "{", "}", ",", "name=a", "entries=3",
        "filesetname=a", "fd=1", "\n", "openfile", "semblock", "sempost", "target=a", "value=1", "cvar(", "type=", ")", "\"", "#", "1k",
        "mean:1;gamma:2", "iosize=9", "eventgen", "rate=1", "\u{f6}", "99999999999999999999",
    ]), 0..60)) {
        fuzzing::wml(words.join(" ").as_bytes());
        fuzzing::wml(words.concat().as_bytes());
    }

    #[test]
    fn no_damage_to_a_personality_does_harm(which in 0usize..7, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = presets()[which].text.as_bytes().to_vec();
        let at = at.index(text.len());
        text[at] = byte;
        fuzzing::personality(&text);
        fuzzing::personality(&text[..at]);
    }
}
