//! Near misses: a wrong name is answered with the known name that is most like it.

/// Least likeness for a suggestion, of 1. Below this, a name is another name.
const LEAST: f64 = 0.75;

/// ` (did you mean 'NAME'?)` with the known name most like `word`; empty if none is like it.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let word = word.to_lowercase();
    // Letters of a short word that changed places are far apart for `jaro`.
    let is_slip = |name: &str| word.len() > 2 && strsim::osa_distance(&word, name) == 1;
    let likeness =
        |name: &str| strsim::jaro(&word, name).max(if is_slip(name) { LEAST } else { 0.0 });
    known
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!(" (did you mean '{name}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_answered_and_another_name_is_not() {
        let known = ["exos-x20", "exos-2x18", "wd800jb", "sata-ssd", "borg", "adaptive", "csv"];
        for (word, name) in [
            ("exos-20", "exos-x20"),
            ("EXOS-X20", "exos-x20"),
            ("exosx20", "exos-x20"),
            ("wd80", "wd800jb"),
            ("sata_ssd", "sata-ssd"),
            ("brog", "borg"),
            ("adaptiv", "adaptive"),
            ("cvs", "csv"),
        ] {
            assert_eq!(did_you_mean(word, known), format!(" (did you mean '{name}'?)"));
        }
        for word in ["", "x", "floppy", "tape", "\u{1f4be}"] {
            assert_eq!(did_you_mean(word, known), "", "{word}");
        }
    }
}
