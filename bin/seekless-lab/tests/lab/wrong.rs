//! The most common wrong inputs of each verb: exit code 2, nothing on standard output, nothing left
//! behind, and a message that names what is wrong and what to do.

use crate::support::Place;

#[test]
fn a_stop_leaves_no_unfinished_day() {
    Place::new().stops(&["synth", "eefs-heavy", "-o", "heavy.strace"]);
}

/// Arguments, and words that the message must hold.
const WRONG: &[(&str, &[&str])] = &[
    ("", &["Usage", "<COMMAND>"]),
    ("reproduc", &["similar", "'reproduce'"]),
    ("reproduce", &["Usage", "borg"]),
    ("reproduce brog", &["similar", "'borg'"]),
    ("reproduce borg --scale 0", &["0.001 to 16"]),
    ("reproduce borg --scale x", &["'x'", "--scale"]),
    ("reproduce borg --started absent", &["absent", "No such file"]),
    ("reproduce borg --started bad.json", &["bad.json"]),
    ("reproduce eefs --scale 4", &["0.001 to 1"]),
    ("reproduce eefs --directories 0", &["--directories"]),
    ("reproduce eefs --directories 9 --sensitivity", &["--directories", "--sensitivity"]),
    ("reproduce eefs --shuffle x", &["'x'"]),
    ("reproduce eefs --trace absent", &["absent", "No such file"]),
    ("reproduce eefs --trace bad.json", &["bad.json"]),
    ("reproduce eefs --disk rz56", &["'rz56'", "rz55"]),
    ("reproduce fs2 --real absent", &["absent/free.parquet", "update.sh"]),
    ("reproduce fast10 --study absent", &["absent", "--study"]),
    ("reproduce fast10", &["--study DIR"]),
    ("reproduce clustering --account none", &["'none'", "paper, arrival"]),
    ("reproduce eefs --trace good --json good", &["good is named twice"]),
    ("reproduce borg --started bad.json --report bad.json", &["bad.json is named twice"]),
    ("reproduce fs2 --json r --report r", &["r is named twice"]),
    ("reproduce fs2-disk --json r --report r", &["r is named twice"]),
    ("reproduce fast10 --json r --report r", &["r is named twice"]),
    ("reproduce clustering --json r --report r", &["r is named twice"]),
    ("synth", &["<NAME>"]),
    ("synth borg-offic", &["'borg-office'"]),
    ("synth borg-svn --scale 0", &["0.001 to 16"]),
    ("synth borg-svn --scale nan", &["'nan'"]),
    ("synth borg-svn -o -", &["-"]),
    ("synth borg-svn -o csv:- --json -", &["cannot both go to standard output"]),
    ("synth borg-svn -o dir", &["dir", "Is a directory"]),
    ("synth eefs-ins --scale 4", &["0.001 to 1"]),
    ("synth eefs-light --json d.json", &["--json"]),
    ("synth fleet --disks 0", &["--disks", "expected disks: a whole number from 1"]),
    ("synth fleet --disks 1.5", &["'1.5'", "for example 1000"]),
    ("workload show absent", &["'absent'", "varmail"]),
    ("workload show", &["<PERSONALITY>"]),
    ("workload run varmail", &["--dir"]),
    ("workload run absent --dir dir", &["'absent'", "varmail"]),
    ("workload run varmail --dir good", &["good", "Not a directory"]),
    ("workload run varmail --dir dir --scale 0", &["'0'", "0.000001"]),
    ("workload run varmail --dir dir --power x", &["'x'", "rapl"]),
    ("workload run varmail --dir dir --seconds 0", &["--seconds", "expected seconds"]),
    ("workload run ./good --dir dir --json good", &["good is named twice"]),
    ("study run absent -o out", &["absent", "No such file"]),
    ("study run good", &["--output"]),
    ("study run good -o out", &["good:1"]),
    ("study run good -o out --json good", &["good is named twice"]),
    ("study report dir", &["dir", "holds no study"]),
    ("study report dir --json r --report r", &["r is named twice"]),
    ("model --disk rz5", &["did you mean 'rz55'?"]),
    ("model --disk nowhere", &["'nowhere'"]),
    ("model --disk ./good --json good", &["good is named twice"]),
    ("model --layout perfec", &["'perfec'", "perfect"]),
    ("model --layout best", &["+drift:SHARE"]),
    ("model --queue 0", &["--queue", "from 1 to 300, for example 50"]),
    ("model --queue 301", &["300"]),
    ("model --seed x", &["'x'", "expected a seed: a whole number from 0"]),
    ("model --block 0", &["512 bytes"]),
    ("cluster", &["<MOUNTPOINT>"]),
    ("cluster dir", &["--trace"]),
    ("cluster dir --trace good", &["dir", "not a mount point"]),
    ("cluster dir --trace good --list good", &["good is named twice"]),
    ("cluster dir --trace disksim:good --json good", &["good is named twice"]),
    ("cluster dir --trace good --disk ./bad.json --json bad.json", &["bad.json is named twice"]),
    ("cluster dir --trace good --list r --json r", &["r is named twice"]),
    ("cluster dir --apply good --json good", &["good is named twice"]),
    ("tune good", &["--disk"]),
    ("tune good --disk exos-20", &["did you mean 'exos-x20'?"]),
    ("tune absent --disk exos-x20", &["absent", "No such file"]),
    ("tune good --disk exos-x20", &["good", "too few requests"]),
    ("tune good --disk exos-x20 --folds 1", &["--folds", "from 2 to 64, for example 24"]),
    ("completions bsh", &["'bash'"]),
    ("man good", &["good", "cannot make"]),
];

#[test]
fn the_most_common_wrong_inputs_are_named_with_what_to_do() {
    let place = Place::new();
    let good = "0.0 0 0 8 1\n1.0 0 100 8 1\n2.0 0 200 8 0\n";
    place.file("good", good).file("bad.json", "{\"runs\": 7}");
    std::fs::create_dir(place.path("dir")).unwrap();
    for (line, words) in WRONG {
        place.refuses(line, words);
    }
    // No output took the place of an input.
    assert_eq!(std::fs::read_to_string(place.path("good")).unwrap(), good);
    assert_eq!(std::fs::read_to_string(place.path("bad.json")).unwrap(), "{\"runs\": 7}");
}
