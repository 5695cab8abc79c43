//! The matrix of a specification, and specifications that are refused.

use super::*;

const SPEC: &str = r#"
name = "t"
seconds = 3
[[device]]
name = "file"
kind = "loop"
size = "1GiB"
[[workload]]
personality = "webserver"
scale = 0.01
rates = [100, 200]
[[workload]]
personality = "my/oltp.f"
[[system]]
filesystem = "ext4"
format = ["blk1k"]
mount = ["noatime"]
[[system]]
filesystem = "xfs"
format = ["blk2k+agcnt64"]
"#;

#[test]
fn the_matrix_is_every_combination_once() {
    let spec = StudySpec::toml("t.toml", SPEC).unwrap();
    let ids: Vec<_> = spec.cells.iter().map(Cell::id).collect();
    assert_eq!(spec.cells.len(), 2 * 5 + 2 * 2, "{ids:?}");
    assert!(ids.contains(&"file/x-blk2k+agcnt64/oltp".to_owned()));
    assert!(ids.contains(&"file/e4-def/webserver@200".to_owned()));
    assert_eq!((spec.least_runs, spec.most_runs), (5, 5));
    let all =
        StudySpec::toml("t.toml", &format!("combine = 'all'\n{}", SPEC.trim_start())).unwrap();
    assert_eq!(all.cells.len(), 2 * 6 + 2 * 2);
    let one = SPEC.replace("\"xfs\"", "\"xfs\"\nworkloads = [\"oltp\"]");
    let one = StudySpec::toml("t.toml", &format!("memory = '64MiB'\n{}", one.trim_start()));
    let one = one.unwrap();
    assert_eq!((one.cells.len(), one.memory), (2 * 3 + 2 + 2, Some(64 << 20)));
    assert!(one.cells.iter().all(|c| c.filesystem != "xfs" || c.workload == "oltp"));
}

#[test]
fn errors_name_line_column_and_allowed_values() {
    for (old, new, place, words) in [
        (
            "kind = \"loop\"",
            "kind = \"lop\"",
            "6:8",
            "expected one of `loop`, `block`, `emulated`, `served`",
        ),
        ("\"noatime\"", "\"noatimes\"", "17:10", "allowed: dtlg"),
        ("\"xfs\"", "\"xfss\"", "19:14", "allowed: ext2"),
        ("seconds = 3", "seconds = -3", "3:11", "seconds = -3 is out of range; allowed: 0.05"),
        ("scale", "scael", "10:1", "unknown field `scael`"),
        ("size = \"1GiB\"", "size = \"1 gib of it\"", "7:8", "is not a size"),
        ("size = \"1GiB\"", "path = \"/dev/sdz\"", "4:1", "needs 'size'"),
        ("name = \"t\"", "name = \"t/../x\"", "2:8", "a name is"),
        ("\"blk2k+agcnt64\"", "\"blk2k\", \"blk2k\"", "1:1", "twice"),
        ("\"xfs\"", "\"xfs\"\nworkloads = [\"web\"]", "20:14", "allowed: webserver, oltp"),
        ("[[device]]", "memory = \"1MiB\"\n[[device]]", "4:10", "16 MiB to 64 TiB"),
        ("[[device]]", "least_runs = 0\n[[device]]", "4:14", "1 to 1000"),
    ] {
        let text = SPEC.replacen(old, new, 1);
        assert_ne!(text, SPEC, "{old}");
        let e = StudySpec::toml("t.toml", &text).unwrap_err().to_string();
        assert!(e.starts_with(&format!("t.toml:{place}")) && e.contains(words), "{new}: {e}");
    }
}
