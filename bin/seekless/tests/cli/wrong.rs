//! The most common wrong inputs of each verb: exit code 2, nothing on standard output, nothing left
//! behind, and a message that names what is wrong and what to do.

use std::collections::BTreeSet;

use crate::support::Place;

fn place() -> Place {
    let place = Place::new();
    place
        .file("good", "0.0 0 0 8 1\n1.0 0 100 8 1\n2.0 0 200 8 0\n")
        .file("empty", "")
        .file("odd", vec![0; 1000])
        .file("disk.img", vec![0; 1 << 20]);
    std::fs::create_dir(place.path("dir")).unwrap();
    place
}

/// Arguments, and words that the message must hold.
const WRONG: &[(&str, &[&str])] = &[
    ("", &["Usage", "seekless --help|<COMMAND>"]),
    ("serv", &["similar", "'serve'"]),
    ("adobt disk.img", &["similar", "'adopt'"]),
    ("polices", &["similar", "'policies'"]),
    ("demo nigths", &["'nigths'", "'nights'"]),
    ("demo desktop extra", &["'extra'"]),
    ("demo nights desktop", &["'desktop'"]),
    ("demo --disk exos-20", &["'exos-20'", "did you mean 'exos-x20'?"]),
    ("demo --disk none.toml", &["none.toml", "No such file"]),
    ("demo --speed 0", &["--speed", "0.01 to 1000"]),
    ("demo --speed nan", &["'nan'", "a number from 0.01 to 1000, for example 10"]),
    ("demo --speed fast", &["'fast'", "0.01 to 1000"]),
    ("demo --json", &["--json", "required"]),
    ("demo --report none/o.html", &["none/o.html", "cannot write into none", "make that folder"]),
    ("demo --report dir", &["dir", "is a folder", "name a file"]),
    ("demo --json good/o.json", &["good/o.json", "cannot write into good"]),
    ("record", &["--output", "<DEVICE>"]),
    ("record /dev/none", &["--output"]),
    ("record /dev/none -o t", &["/dev/none", "No such file", "lsblk"]),
    ("record good -o t", &["good: no block device", "lsblk", "findmnt"]),
    ("record good -o good", &["exists", "--force"]),
    ("record good -o -", &["must be a file"]),
    ("record good -o no/such/t", &["no/such/t", "cannot be written"]),
    ("record good -o t --buffer 1", &["4 KiB"]),
    ("record good -o t --duration 0s", &["duration"]),
    ("record good -o t --json good", &["good is named twice"]),
    ("record dir -o t", &["dir", "a folder", "lsblk"]),
    ("record /dev/null -o t", &["/dev/null", "no block device", "lsblk"]),
    ("record good -o t --duration 5", &["'5'", "90s, 15m"]),
    ("record good -o t --event Z", &["'Z'", "Q, D"]),
    ("record good -o t --max-size 1XB", &["'1XB'", "KiB"]),
    ("record good -o t --max-requests few", &["'few'", "expected requests: a whole number from 1"]),
    ("stat", &["<TRACE>"]),
    ("stat none", &["none", "No such file"]),
    ("stat empty", &["empty", "the file is empty"]),
    ("stat dir", &["dir", "blktrace"]),
    ("stat disk.img", &["disk.img", "no known trace format"]),
    ("stat msrr:good", &["msrr:good", "not the name of a format"]),
    ("stat good good", &["'good'"]),
    ("stat good --size 1XB", &["'1XB'", "KiB"]),
    ("stat good --size 0", &["size of 0"]),
    ("stat good --device 7", &["no requests of device '7'", "its devices: 0"]),
    ("stat good --memory 1MiB", &["1MiB", "16 MiB"]),
    ("stat good --memory much", &["'much'", "not a size"]),
    ("stat good --top few", &["'few'", "expected rows: a whole number from 0, for example 10"]),
    ("stat good --day 5", &["'5'", "24h"]),
    ("stat good --report none/o.html", &["none/o.html", "cannot write"]),
    ("stat none --json none/o.json", &["none/o.json", "cannot write"]),
    (
        "stat none --figures good/plots",
        &["good/plots", "cannot make the folder", "good is not a folder"],
    ),
    ("advise none --disk exos-x20 --report none/o.html", &["none/o.html", "cannot write"]),
    ("advise --fleet dir --csv none/o.csv", &["none/o.csv", "cannot write"]),
    ("simulate none --disk exos-x20 --picture none/o.svg", &["none/o.svg", "cannot write"]),
    ("advise", &["<TRACE|DEVICE>"]),
    ("advise none --disk exos-x20", &["none", "No such file"]),
    ("advise good --disk exos-20", &["did you mean 'exos-x20'?"]),
    ("advise good --disk ./none.toml", &["none.toml", "No such file"]),
    ("advise good --policy brog", &["'brog'", "did you mean 'borg'?"]),
    ("advise good --policy borg:degre=2", &["'degre'", "its keys: order"]),
    (
        "advise good --folds 1",
        &["--folds", "expected folds: a whole number from 2 to 64, for example 12"],
    ),
    ("advise good --or sata-sdd", &["did you mean 'sata-ssd'?"]),
    ("advise good --device-size 5XB", &["'5XB'", "KiB"]),
    ("advise good --for 5", &["'5'", "90s"]),
    ("simulate good --disk exos20", &["did you mean 'exos-x20'?"]),
    ("simulate good --disk exos-x20 --policy vanilla,adaptve", &["did you mean 'adaptive'?"]),
    ("convert", &["<IN>", "<OUT>"]),
    ("convert good", &["good has no output"]),
    ("convert none out.parquet", &["none", "No such file"]),
    ("convert empty out.parquet", &["empty", "the file is empty"]),
    ("convert dir out.parquet", &["dir", "blktrace"]),
    ("convert good dir", &["dir", "Is a directory"]),
    ("convert good none/out.parquet", &["none/out.parquet", "No such file"]),
    ("convert good out.csv --device 9", &["'9'", "it has '0'"]),
    ("convert msrr:good out.csv", &["not the name of a format"]),
    ("convert good out.csv more", &["-o OUT"]),
    ("convert good cvs:-", &["cvs is not the name of a format", "did you mean 'csv'?"]),
    ("convert good fioo:out", &["did you mean 'fio'?", "./fioo:out"]),
    ("convert good -o parqet:out", &["did you mean 'parquet'?"]),
    ("release", &["<DISK>"]),
    ("release none --root .", &["none", "not adopted"]),
    ("release disk.img --root .", &["disk.img", "not adopted"]),
    ("release disk.img --root none", &["none", "is no folder"]),
    ("release disk.img --root good", &["good", "is no folder"]),
    ("release disk.img extra", &["'extra'"]),
    ("release --dry-run", &["<DISK>"]),
    ("release disk.img --dryrun", &["'--dry-run'"]),
    ("release disk.img --root", &["--root"]),
    ("release disk.img --force", &["'--force'"]),
    ("serve", &["<BACKING>"]),
    ("serve none --nbd unix:s", &["none", "--size SIZE makes a new one"]),
    ("serve disk.img", &["--nbd ADDRESS", "--fuse PATH"]),
    ("serve disk.img --nbd unix:s --json disk.img", &["disk.img is named twice"]),
    (
        "serve disk.img --nbd unix:s --tls-cert empty --tls-key good --json good",
        &["good is named twice"],
    ),
    ("serve disk.img --nbd unix:s --disk ./my.toml --json my.toml", &["my.toml is named twice"]),
    ("serve dir --nbd unix:s", &["dir", "directory"]),
    ("serve empty --nbd unix:s", &["empty", "truncate"]),
    ("serve disk.img --nbd unix:s --nbd-user root", &["'root'", "a user", "for example 1000"]),
    ("serve disk.img --nbd s", &["'s'", "unix:PATH"]),
    ("serve disk.img --nbd tcp:localhost", &["tcp:localhost", "tcp:HOST:PORT"]),
    ("serve disk.img --nbd unix:s --policy adaptve", &["did you mean 'adaptive'?"]),
    ("serve disk.img --nbd unix:s --policy clairvoyant", &["for simulations alone"]),
    (
        "serve disk.img --nbd unix:s --policy adaptive:area-at=disk-end",
        &["key area-at is for simulations alone"],
    ),
    ("serve disk.img --nbd unix:s --disk exos-20", &["did you mean 'exos-x20'?"]),
    ("serve disk.img --nbd unix:s --area none", &["none", "No such file"]),
    ("serve disk.img --nbd unix:s --area disk.img", &["disk.img", "the backing itself"]),
    ("serve http://host/disk --nbd unix:s", &["http://host/disk", "nbd://"]),
    ("serve disk.img --nbd unix:s --policy ,", &["','", "the policies are vanilla"]),
    ("serve disk.img --nbd unix:s --scrub 1", &["'1'", "90s"]),
    ("serve disk.img --nbd unix:s --state dir", &["dir"]),
    ("serve disk.img --nbd tcp:0.0.0.0:1", &["--tls-cert", "--insecure"]),
    ("serve disk.img --nbd unix:s --http 0.0.0.0:1", &["--http-token", "127.0.0.1"]),
    ("serve odd --nbd unix:s", &["odd", "1000", "512"]),
    ("serve . --nbd unix:s --optimized 0", &["."]),
    ("serve new.img --nbd unix:s --size 1000", &["1000", "512"]),
    ("serve new.img --nbd unix:s --size lots", &["lots"]),
    ("serve disk.img --nbd unix:s --size 2MiB", &["disk.img", "1048576", "2097152"]),
    ("serve no/such/dir.img --nbd unix:s --size 1MiB", &["no/such/dir.img"]),
    ("serve disk.img --nbd unix:s --learn-every 0s", &["0s"]),
    ("serve disk.img --nbd unix:s --learn-every soon", &["soon"]),
    ("serve disk.img --nbd unix:s --learn-every 5", &["5"]),
    ("serve disk.img --nbd unix:s --area-dir nowhere", &["nowhere"]),
    ("serve disk.img --nbd unix:s --disk floppy", &["floppy", "wd800jb"]),
    ("serve disk.img --nbd unix:s --disk wd800jb,warp=9", &["warp=9", "speed=X"]),
    (
        "serve huge.img --size 100GiB --nbd unix:s --disk wd800jb",
        &["wd800jb", "huge.img", "sectors"],
    ),
    ("adopt disk.img", &["the area has no path", "--area"]),
    ("adopt none --area a --root .", &["none", "No such file"]),
    ("adopt disk.img --area dir --root .", &["dir", "is a folder"]),
    ("adopt disk.img --area disk.img --root .", &["disk.img", "is the disk itself"]),
    ("adopt disk.img --area a --name a/b --root .", &["a/b", "letters, digits"]),
    ("adopt disk.img --area a --mount good --root .", &["good", "is no folder"]),
    ("serve disk.img --nbd unix:none/s", &["unix:none/s", "No such file"]),
    ("top none", &["'none'", "unix:PATH"]),
    ("top 99999", &["'99999'", "tcp:HOST:PORT"]),
    ("top unix:none", &["unix:none", "is `seekless serve --http` running"]),
    ("top server", &["'server'", "tcp:HOST:PORT"]),
    ("top tcp:x", &["tcp:x", "tcp:HOST:PORT"]),
    ("top http://localhost", &["unix:PATH"]),
    ("top 1", &["is `seekless serve --http` running"]),
    ("top 1 2", &["'2'"]),
    ("top 1 --token x", &["--token"]),
    ("top disk.img", &["disk.img", "unix:PATH"]),
    ("watch none", &["none", "cannot find it"]),
    ("watch reprot", &["reprot", "did you mean 'report'?"]),
    ("watch statsu", &["statsu", "did you mean 'status'?"]),
    ("watch good", &["good", "not a mount point", "findmnt"]),
    ("watch dir", &["dir", "not a mount point", "findmnt"]),
    ("watch /proc", &["/proc", "ext2, ext3, ext4, XFS and btrfs"]),
    ("watch /proc/self", &["findmnt"]),
    ("watch status extra", &["'extra'"]),
    ("watch report --state none", &["none", "no `seekless watch` runs"]),
    ("watch --all /srv", &["--all"]),
    ("watch --state", &["--state"]),
    ("volume formt disk.img", &["similar", "'format'"]),
    ("volume format", &["<BACKING>"]),
    ("volume format none", &["none", "No such file"]),
    ("volume format dir", &["dir", "directory"]),
    ("volume format good", &["good", "multiple of 512", "truncate"]),
    ("volume format disk.img --at", &["--at"]),
    ("volume format disk.img --at none/area", &["none/area", "No such file"]),
    ("volume format disk.img --optimized 200%", &["'200%'", "0% to 100%"]),
    ("volume format disk.img --optimized 2XB", &["'2XB'", "KiB"]),
    ("volume format disk.img --mode back", &["'back'", "writeback"]),
    ("volume format disk.img --replicas 0", &["--replicas 0", "leave it out"]),
    ("volume format disk.img --align 9", &["--align", "a whole number from 0 to 7"]),
    ("volume status none", &["none", "No such file"]),
    ("volume status dir", &["dir", "not a regular file and not a block device"]),
    ("volume status good", &["good", "multiple of 512"]),
    ("volume status disk.img", &["disk.img", "--area", "volume format"]),
    ("volume status disk.img --area none", &["none", "No such file"]),
    ("volume status disk.img --area empty", &["empty"]),
    ("volume mode disk.img", &["'disk.img'", "writethrough or writeback"]),
    ("volume mode back disk.img", &["'back'", "writethrough or writeback"]),
    ("volume mode writeback none", &["none", "No such file"]),
    ("volume mode writeback disk.img", &["disk.img", "--area"]),
    ("volume replan none", &["none", "No such file"]),
    ("volume replan disk.img", &["disk.img", "no server of this volume"]),
    ("volume drain disk.img", &["disk.img", "--area"]),
    ("volume drain disk.img --area none", &["none", "No such file"]),
    ("volume prove disk.img", &["disk.img", "--area"]),
    ("volume prove none", &["none", "No such file"]),
    ("volume detach disk.img", &["disk.img", "--area"]),
    ("volume detach none", &["none", "No such file"]),
    ("volume check disk.img", &["disk.img", "--area"]),
    ("volume check disk.img --area good", &["good", "multiple of 512"]),
    ("volume repair disk.img", &["disk.img", "--area"]),
    ("volume repair disk.img --area empty", &["empty"]),
    ("volume dump disk.img", &["disk.img", "--area"]),
    ("volume dump none --json", &["none", "No such file"]),
    ("volume resize disk.img", &["disk.img", "--area"]),
    ("volume resize disk.img --optimized 5XB", &["'5XB'", "KiB"]),
    ("volume rescue disk.img", &["--nbd ADDRESS", "--fuse PATH"]),
    ("volume rescue none --nbd unix:s", &["none", "No such file"]),
    ("volume replicate disk.img", &["--near", "--file"]),
    ("volume replicate disk.img --range 0+1MiB", &["--near"]),
    ("volume replicate disk.img --range x --near 0", &["'x'", "START+LENGTH"]),
    (
        "volume replicate disk.img --range 0+1MiB --near 0",
        &["disk.img", "no server of this volume"],
    ),
    ("files muont", &["similar", "'mount'"]),
    ("files mount", &["--store", "<DIR>", "<MOUNTPOINT>"]),
    ("files mount dir", &["--store", "<MOUNTPOINT>"]),
    ("files mount dir dir", &["--store"]),
    ("files mount dir dir --store none/st --create 1MiB", &["none/st", "No such file"]),
    ("files mount dir dir --store st", &["st", "No such file"]),
    ("files mount dir dir --store good", &["good", "chmod 600"]),
    ("files mount dir dir --store st --create 5", &["multiple of 512"]),
    ("files mount dir dir --store st --create 5XB", &["'5XB'", "KiB"]),
    ("files mount dir dir more --store st", &["'more'"]),
    ("files format", &["<STORE>|--size|<"]),
    ("files format good", &["good", "multiple of 512"]),
    ("files format none", &["none"]),
    ("files format st --size 1MiB", &["st", "too small"]),
    ("files format st --size 8MiB --cluster 3", &["clusters of 3 bytes", "65536"]),
    ("files status dir", &["dir", "not a mount"]),
    ("files status none", &["none", "No such file"]),
    ("files unmount dir", &["dir", "not a mount"]),
    ("files unmount none", &["none"]),
    ("files shuffle dir", &["dir", "not a mount"]),
    ("files shuffle none", &["none"]),
    ("files check dir", &["--store"]),
    ("files check dir --store none", &["none", "No such file"]),
    ("files check dir --store good", &["good", "multiple of 512"]),
    ("disk lst", &["similar", "'list'"]),
    ("disk list all", &["'all'"]),
    ("disk show", &["<NAME>"]),
    ("disk show exos-20", &["did you mean 'exos-x20'?"]),
    ("disk show WD800JB", &["did you mean 'wd800jb'?"]),
    ("disk show floppy", &["'floppy'", "wd800jb", ".toml"]),
    ("disk show none.toml", &["none.toml", "No such file"]),
    ("disk import", &["<FILE>"]),
    ("disk import none", &["none", "No such file"]),
    ("disk import good", &["good:1", "disksim_disk"]),
    ("disk import good -o good", &["good is named twice"]),
    ("disk import good --json good", &["good is named twice"]),
    ("disk fit none", &["--output"]),
    ("disk fit none -o m.toml", &["none", "No such file"]),
    ("disk fit good -o m.toml", &["good"]),
    ("disk fit none -o none/m.toml", &["none/m.toml", "cannot write"]),
    ("disk fit good -o good", &["good is named twice"]),
    ("disk fit measured:good -o m.toml --plot good", &["good is named twice"]),
    ("disk probe none -o m.toml", &["none", "No such file"]),
    ("disk probe dir -o m.toml", &["dir"]),
    ("disk probe disk.img -o disk.img", &["disk.img is named twice"]),
    ("disk probe disk.img -o m.toml --json disk.img", &["disk.img is named twice"]),
    ("disk probe disk.img -o m.toml --budget 5", &["'5'", "90s"]),
    ("disk validate", &["<INPUT>"]),
    ("disk validate none", &["--disk <NAME>"]),
    ("disk validate --disk exos-20 good", &["did you mean 'exos-x20'?"]),
    ("disk validate --disk wd800jb good --json good", &["good is named twice"]),
    ("disk validate --disk sata-ssd good", &["sata-ssd", "kind ssd", "one arm"]),
    ("disk emulate", &["<NAME>", "<IMAGE>"]),
    ("disk emulate exos-x20", &["<IMAGE>"]),
    ("disk emulate exos-x20 disk.img", &["--nbd ADDRESS", "--fuse PATH"]),
    ("disk emulate exos-20 disk.img --nbd unix:s", &["did you mean 'exos-x20'?"]),
    ("disk emulate exos-x20 disk.img --nbd unix:s --speed 0", &["'0'", "0.001"]),
    ("disk emulate exos-x20 disk.img --nbd unix:s --spin-down x", &["'x'", "adaptive"]),
    ("disk emulate exos-x20 disk.img --nbd unix:s --scheduler x", &["'x'", "sptf"]),
    ("policies x", &["'x'"]),
    ("policies --jsn", &["'--json'"]),
    ("completions", &["<SHELL>"]),
    ("completions bsh", &["'bash'"]),
    ("completions bash zsh", &["'zsh'"]),
    ("man", &["<DIR>"]),
    ("man good", &["good", "cannot make"]),
    ("man --all", &["--all"]),
];

#[test]
fn the_most_common_wrong_inputs_are_named_with_what_to_do() {
    let place = place();
    for (line, words) in WRONG {
        place.refuses(line, words);
    }
}

/// The verbs, as the names of their man pages say.
pub(crate) fn verbs(place: &Place) -> Vec<String> {
    place.ok(&["man", "man"]);
    let pages = place.path("man").read_dir().unwrap();
    let names = pages.map(|p| p.unwrap().file_name().into_string().unwrap());
    let verbs = names.filter_map(|n| Some(n.strip_prefix("seekless-")?.split('.').next()?.into()));
    let mut verbs: Vec<String> = verbs.filter(|v: &String| !v.contains("help")).collect();
    verbs.sort();
    assert!(verbs.len() > 30, "{verbs:?}");
    verbs
}

/// The long options in a help, without those that every verb has.
fn options(help: &str) -> BTreeSet<String> {
    // What is further to the right describes.
    let named = help.lines().filter(|l| l.starts_with("      --") || l.starts_with("  -"));
    let lines = named.filter_map(|l| l.split(' ').find(|w| w.starts_with("--")));
    let names = lines.map(|w| w.trim_end_matches(|c: char| !c.is_ascii_lowercase()).to_owned());
    names.filter(|n| n.len() > 6 && n != "--help").collect()
}

#[test]
fn every_option_of_every_verb_that_is_misspelled_is_named() {
    let place = place();
    let mut tried = 0;
    for verb in verbs(&place) {
        let path: Vec<&str> = verb.split('-').collect();
        let help = place.run(&[&path[..], &["--help"]].concat());
        assert_eq!(help.code, Some(0), "{verb}");
        for option in options(help.out.split("Examples:").next().unwrap()) {
            // Without its last letter but one.
            let cut = option.len() - 2;
            let wrong = format!("{}{}", &option[..cut], &option[cut + 1..]);
            let ran = place.run(&[&path[..], &[wrong.as_str()]].concat());
            ran.refused(&format!("{verb} {wrong}"), &[]);
            let tip = format!("a similar argument exists: '{option}'");
            let several = ran.err.contains("similar arguments exist") && ran.err.contains(&option);
            assert!(ran.err.contains(&tip) || several, "{verb} {wrong}: {}", ran.err);
            tried += 1;
        }
    }
    assert!(tried > 120, "{tried} options");
}
