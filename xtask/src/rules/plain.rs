//! Plain words, as far as a program can check them: short lines, short sentences, and none of the
//! words that CONTRIBUTING.md's table "instead of | write" tells to replace. The words are refused
//! in the documents, and in comments, messages and helps of the source.

use crate::code::{code_only, has_word, is_part};
use crate::markdown::{Kind, blocks, code_spans, plain, text_lines};
use crate::repo::{Finding, Repo};

/// Files and folders that the rule holds for. Generated pages are spared: [`SPARED`].
const HELD: &[&str] =
    &["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "benches/README.md", "docs/"];
const SPARED: &[&str] = &["docs/changing/on-disk-format.md", "docs/changing/group-store-format.md"];
const LIST: &str = "CONTRIBUTING.md";
const LIST_HEADING: &str = "| instead of | write |";
const COLUMNS_MAX: usize = 100;
const SENTENCE_WORDS_MAX: usize = 45;
const SENTENCE_WORDS_MEAN: usize = 22;
/// Minimum number of sentences for a useful mean.
const SENTENCES_LEAST: usize = 5;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let words = forbidden(repo.text(LIST).unwrap_or_default());
    let mut found = Vec::new();
    if words.is_empty() {
        found.push(Finding::new(LIST, format!("has no table `{LIST_HEADING}`")));
    }
    let held =
        |path: &str| HELD.iter().any(|h| path == *h || h.ends_with('/') && path.starts_with(h));
    for (path, text) in repo.ending(".md").filter(|(p, _)| held(p) && !SPARED.contains(p)) {
        lines(path, text, &mut found);
        sentences(path, text, &mut found);
        replaced(path, text, &words, &mut found);
    }
    for (path, text) in repo.ending(".rs").filter(|(path, _)| is_source(path)) {
        in_source(path, text, &words, &mut found);
    }
    found
}

/// Whether a file is source of the product: no test, no example, no tool of the repository.
fn is_source(path: &str) -> bool {
    path.contains("/src/") && !path.starts_with("xtask/") && !path.ends_with("/tests.rs")
}

/// Words of the list in the comments and literals of source; a module of tests at its end is spared.
fn in_source(path: &str, text: &str, words: &[String], found: &mut Vec<Finding>) {
    let code = code_only(text);
    let lines = text.lines().zip(code.lines()).take_while(|(line, _)| *line != "#[cfg(test)]");
    for (n, (line, code)) in lines.enumerate() {
        let blank = |(raw, code)| if raw == code { ' ' } else { raw };
        let prose: String = line.chars().zip(code.chars()).map(blank).collect();
        let prose = prose.to_lowercase();
        for word in words.iter().filter(|word| has_word(&prose, word)) {
            found.push(Finding::at(path, n + 1, format!("\"{word}\": see the table in {LIST}")));
        }
    }
}

/// Lines that are too long, tables, code and what a link leads to aside.
fn lines(path: &str, text: &str, found: &mut Vec<Finding>) {
    for (n, (line, is_text)) in text.lines().zip(text_lines(text)).enumerate() {
        // A table's row, or a picture and the words that stand for it.
        let table = line.trim_start().starts_with(['|', '!']);
        if is_text && !table && line.chars().count() > COLUMNS_MAX {
            let indent = line.len() - line.trim_start().len();
            let columns = indent + unlinked(line).chars().count();
            if columns > COLUMNS_MAX {
                let text = format!("{columns} columns; {COLUMNS_MAX} is the most");
                found.push(Finding::at(path, n + 1, text));
            }
        }
    }
}

/// A line without the targets of its links.
fn unlinked(line: &str) -> String {
    let words = line.split_whitespace().filter(|w| !w.contains("://"));
    words.map(|w| w.split_once("](").map_or(w, |(before, _)| before)).collect::<Vec<_>>().join(" ")
}

fn sentences(path: &str, text: &str, found: &mut Vec<Finding>) {
    let (mut all, mut count) = (0, 0);
    for block in blocks(text).iter().filter(|b| b.kind == Kind::Prose) {
        let mut sentence = Vec::new();
        let mut begins = block.line;
        let mut words = block
            .lines
            .iter()
            .enumerate()
            .flat_map(|(i, line)| {
                let words: Vec<String> = plain(line).split(' ').map(str::to_owned).collect();
                words.into_iter().map(move |w| (i, w))
            })
            .peekable();
        while let Some((i, word)) = words.next() {
            if sentence.is_empty() {
                begins = block.line + i;
            }
            let next = words.peek().map(|(_, w)| w.as_str());
            let ends = ends_sentence(&word, next);
            if word.contains(char::is_alphanumeric) {
                sentence.push(word);
            }
            if ends && !sentence.is_empty() {
                let length = sentence.len();
                (all, count) = (all + length, count + 1);
                if length > SENTENCE_WORDS_MAX {
                    let begin = sentence[..6].join(" ");
                    let text = format!(
                        "a sentence of {length} words (\"{begin} ...\"); {SENTENCE_WORDS_MAX} is the most"
                    );
                    found.push(Finding::at(path, begins, text));
                }
                sentence.clear();
            }
        }
    }
    if count >= SENTENCES_LEAST && all > SENTENCE_WORDS_MEAN * count {
        let mean = all as f64 / count as f64;
        let text =
            format!("{mean:.1} words in a sentence on average; {SENTENCE_WORDS_MEAN} is the most");
        found.push(Finding::new(path, text));
    }
}

/// Whether a sentence ends with this word.
fn ends_sentence(word: &str, next: Option<&str>) -> bool {
    let Some(next) = next else { return true };
    let bare = word.trim_end_matches(['"', '\'', ')', '*', '_', ']']);
    let short = ["e.g.", "i.e.", "vs.", "cf.", "etc.", "pp.", "p.", "no.", "al."];
    let begins = next.trim_start_matches(['"', '\'', '(', '*', '_', '[']);
    bare.ends_with(['.', '!', '?'])
        && !short.contains(&bare.to_lowercase().as_str())
        && begins.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == 'x')
}

/// The words of the table's first column.
fn forbidden(text: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|l| l.trim() != LIST_HEADING).skip(2);
    rows.take_while(|l| l.starts_with('|'))
        .filter_map(|l| l.split('|').nth(1))
        .flat_map(code_spans)
        .map(str::to_lowercase)
        .collect()
}

/// Words that another one should stand for.
fn replaced(path: &str, text: &str, words: &[String], found: &mut Vec<Finding>) {
    let mut listed = false;
    for block in blocks(text) {
        listed = block.kind == Kind::Row && (listed || block.lines[0] == LIST_HEADING);
        if listed && path == LIST {
            continue;
        }
        // A phrase may go on in the next line.
        let all = block.lines.iter().map(|l| plain(l).to_lowercase()).collect::<Vec<_>>();
        let joined = all.join(" ");
        for word in words {
            for (at, _) in joined.match_indices(word.as_str()) {
                if joined[..at].ends_with(is_part) || joined[at + word.len()..].starts_with(is_part)
                {
                    continue;
                }
                let mut end = 0;
                let line = all.iter().take_while(|l| {
                    end += l.len() + 1;
                    end <= at
                });
                let line = block.line + line.count();
                found.push(Finding::at(path, line, format!("\"{word}\": see the table in {LIST}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "Words.\n\n| instead of | write |\n|:--|:--|\n| `lately`, `so many` | recently |\n";

    fn findings(text: &str) -> Vec<String> {
        let found = check(&Repo::of(&[(LIST, TABLE), ("docs/tour.md", text)]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_lines_are_found_where_they_are_prose() {
        let long = "abcd ".repeat(20) + "e";
        for (text, count) in [
            (format!("{}.\n", &long[..99]), 0),
            (format!("{long}.\n"), 1),
            (format!("| {long} |\n"), 0),
            (format!("![{long}](a.svg)\n"), 0),
            (format!("```\n{long}\n```\n"), 0),
            (format!("See\n\n    {long}\n"), 0),
            (format!("- an item\n  {long}\n"), 1),
            (format!("See [a](b/{}).\n", long.replace(' ', "-")), 0),
        ] {
            assert_eq!(findings(&text).len(), count, "{text}: {:?}", findings(&text));
        }
    }

    #[test]
    fn long_sentences_are_found_and_counted() {
        let of = |words: usize| "word ".repeat(words - 1) + "end.\n";
        let wrapped =
            |words: usize| of(words).replace("word word word word ", "word word word word\n");
        assert_eq!(findings(&wrapped(45)), [""; 0]);
        let found = findings(&("Short.\n\n".to_owned() + &wrapped(46)));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/tour.md:3: a sentence of 46 words"), "{found:?}");
        // Two sentences, a figure with a point, a name with a point.
        assert_eq!(findings(&wrapped(40).replace("end", "end. Word 1.5 of a.rs")), [""; 0]);
        let five = |words| (0..5).map(|_| format!("{}\n", wrapped(words))).collect::<String>();
        assert_eq!(findings(&five(22)), [""; 0]);
        assert!(findings(&five(23))[0].contains("23.0 words in a sentence on average"));
    }

    #[test]
    fn words_of_the_list_are_found_in_prose() {
        for (text, lines) in [
            ("It was done lately.\n", &[1][..]),
            ("Lately, so\nmany files.\n", &[1, 1]),
            ("A\nb so many files.\n", &[2]),
            ("| lately |\n", &[1]),
            ("`lately` and platelately, solately\n", &[]),
        ] {
            let found = findings(text);
            let of = |f: &String| f.split(':').nth(1).and_then(|n| n.parse().ok());
            assert_eq!(
                found.iter().filter_map(of).collect::<Vec<usize>>(),
                lines,
                "{text}: {found:?}"
            );
        }
        assert_eq!(check(&Repo::of(&[(LIST, "No table.\n")])).len(), 1);
    }

    #[test]
    fn words_of_the_list_are_found_in_comments_and_messages() {
        let text = "/// Lately.\nfn lately() {\n    say(\"done so many times\"); // fine\n}\n\n#[cfg(test)]\nmod tests {\n    // lately\n}\n";
        let found = |path| check(&Repo::of(&[(LIST, TABLE), (path, text)]));
        let lines: Vec<String> = found("a/b/src/c.rs").iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("a/b/src/c.rs:1: \"lately\"") && lines[1].contains(":3:"));
        for path in ["a/b/src/c/tests.rs", "a/b/tests/c.rs", "xtask/src/c.rs"] {
            assert_eq!(found(path).len(), 0, "{path}");
        }
    }

    #[test]
    fn generated_files_are_spared() {
        let long = "abcd ".repeat(30);
        let of = |path: &str| check(&Repo::of(&[(LIST, TABLE), (path, &long)])).len();
        assert_eq!((of("docs/changing/b.md"), of("CHANGELOG.md"), of(SPARED[0])), (1, 0, 0));
    }
}
