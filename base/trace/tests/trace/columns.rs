//! Tables whose columns the user names.

use seekless_block::Op::{Discard, Flush, Read, Write};
use seekless_trace::{Format, OpenOptions, Reader, Record, Source, TraceError};

use crate::fixtures::{devices, names};
use crate::support::{With, open, rec};

fn read(columns: &str, header: bool, text: &str) -> (Reader, Vec<Record>) {
    let columns = Some(columns.parse::<seekless_trace::Columns>().unwrap().with_header(header));
    let options = OpenOptions { columns, ..OpenOptions::default() };
    let mut reader = open(text.as_bytes(), &options).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    (reader, records)
}

#[test]
fn units_names_and_separators_are_as_the_user_says() {
    let named = "time=1:ms,op=2,offset=3:bytes,size=4,process=5,device=6";
    let expected = [
        rec(0, Read, 8, 8),
        rec(1_500_000, Write, 1, 3).stream(1),
        rec(2_000_000, Discard, 0, 1).stream(2).device(1),
        rec(2_000_000, Flush, 0, 0).stream(2).device(1),
    ];
    let rows =
        ["5,r,4096,4096,0,a", "6.5,WRITE,1000,1000,77,a", "7,trim,0,1,vi,b", "7,flush,0,0,vi,b"];
    for separator in [",", ";", "\t", "  "] {
        let text = format!("a title\n{}\n", rows.join("\n").replace(',', separator));
        let (reader, records) = read(named, true, &text);
        assert_eq!(records, expected, "{separator:?}");
        assert_eq!(devices(&reader), ["a", "b"]);
        assert_eq!(names(&reader), [(0, ""), (77, ""), (0, "vi")]);
        let info = reader.info();
        assert_eq!(
            (info.format, info.has_times, info.has_processes),
            (Format::Columns, true, true)
        );
    }
}

#[test]
fn what_is_not_named_has_a_default() {
    let (reader, records) = read("size=1:pages,offset=3:sectors", false, "2,x,64\n1,y,8,more\n");
    assert_eq!(records, [rec(0, Read, 64, 16), rec(0, Read, 8, 8)]);
    assert!(!reader.info().has_times);
    let (_, records) =
        read("op=1:read1,offset=2:KiB,size=3,service=4:us", false, "1,1,512,3\n0,2,1,9\n");
    assert_eq!(records, [rec(0, Read, 2, 1).service(3000), rec(0, Write, 4, 1).service(9000)]);
}

#[test]
fn quoted_names_hold_commas_and_times_are_sorted() {
    let text = "\"a, b\",2,0,512\nc,1,512,512\n";
    let (reader, records) = read("process=1,time=2,offset=3,size=4", false, text);
    assert_eq!(records, [rec(0, Read, 1, 1).stream(1), rec(1_000_000_000, Read, 0, 1).stream(2)]);
    assert_eq!(names(&reader), [(0, ""), (0, "c"), (0, "a, b")]);
}

#[test]
fn a_wrong_line_is_named() {
    let columns = Some("offset=1,size=2,op=3".parse().unwrap());
    for (line, lenient) in [("x,1,R", false), ("1,1", false), ("1,1,Q", true)] {
        let options = OpenOptions { columns, lenient, ..OpenOptions::default() };
        let mut reader = open(format!("0,512,R\n{line}\n").as_bytes(), &options).unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), rec(0, Read, 0, 1));
        if lenient {
            assert!(reader.next().is_none());
            assert_eq!(reader.skipped().malformed, 1);
        } else {
            let error = reader.next().unwrap().unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains("--columns"), "{error}");
        }
    }
    let source = Source::from_bytes("t", b"1,2\n").unwrap().named(Some(Format::Columns));
    let error = source.open(&OpenOptions::default()).map(|_| ()).unwrap_err();
    assert!(matches!(error, TraceError::NoColumns { .. }), "{error}");
}
