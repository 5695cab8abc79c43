//! Traces joined by time: in order, with every device apart, and errors that name the place.

use seekless_trace::{Format, OpenOptions, Source, TraceError, convert};

use crate::support::fixture;

/// A trace in DiskSim's format: arrival in milliseconds, device, first sector.
fn disksim(name: &str, requests: &[(u32, u32, u64)]) -> Source {
    let text: String =
        requests.iter().map(|(ms, device, at)| format!("{ms}.0 {device} {at} 8 1\n")).collect();
    Source::from_bytes(name, text.as_bytes()).unwrap().named(Some(Format::DiskSim))
}

/// Arrival in milliseconds, device, first sector of each request.
fn read(source: &Source) -> Result<Vec<(u64, String, u64)>, TraceError> {
    let mut reader = source.open(&OpenOptions::default())?;
    let mut all = Vec::new();
    while let Some(record) = reader.next_record()? {
        let device = reader.devices()[record.device as usize].name.clone();
        all.push((record.request.arrival.0 / 1_000_000, device, record.request.extent.start.0));
    }
    Ok(all)
}

#[test]
fn requests_come_in_order_of_time_and_devices_stay_apart() {
    let a = disksim("d/a.txt", &[(105, 0, 8), (110, 1, 16), (130, 0, 24)]);
    let b = disksim("b.txt", &[(103, 0, 100), (110, 0, 200), (131, 2, 300), (131, 2, 400)]);
    let of = |ms, device: &str, at| (ms, device.to_owned(), at);
    let expected = [
        of(0, "0", 100),
        of(2, "a:0", 8),
        of(7, "1", 16), // of the same moment, the first trace comes first
        of(7, "0", 200),
        of(27, "a:0", 24),
        of(28, "2", 300),
        of(28, "2", 400),
    ];
    let joined = Source::joined(vec![a.clone(), b.clone()]);
    for _ in 0..2 {
        assert_eq!(read(&joined).unwrap(), expected);
    }
    // The same trace twice: every request twice, on two devices.
    let twice = read(&Source::joined(vec![b.clone(), b])).unwrap();
    assert_eq!(twice.len(), 8);
    assert_eq!((&twice[0], &twice[1]), (&of(0, "0", 100), &of(0, "b:0", 100)));
}

#[test]
fn in_a_mixture_of_formats_times_count_from_the_start_of_each() {
    let a = disksim("a.txt", &[(105, 0, 8), (125, 0, 24)]);
    let csv = Source::from_bytes("m.csv", &fixture("msr.csv")).unwrap();
    let joined = read(&Source::joined(vec![csv.clone(), a])).unwrap();
    assert_eq!(joined.len(), read(&csv).unwrap().len() + 2);
    assert_eq!((joined[0].0, joined[1].0), (0, 0));
    assert!(joined.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{joined:?}");
}

#[test]
fn a_store_of_files_counts_from_its_own_start() {
    let text = "1 1700000000.000100 open(\"/a\", O_RDONLY) = 3
1 1700000000.000200 read(3, \"\"..., 8192) = 8192
1 1700000009.000300 read(3, \"\"..., 8192) = 8192
";
    let text = Source::from_bytes("t", text.as_bytes()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("t.parquet");
    convert(&text, &OpenOptions::default(), &store, &mut |_| {}).unwrap();
    let store = Source::from_path(&store, None);
    let times = |sources| {
        let all = read(&Source::joined(sources)).unwrap();
        all.into_iter().map(|(ms, ..)| ms).collect::<Vec<_>>()
    };
    for sources in [vec![text.clone(), store.clone()], vec![store.clone(), store]] {
        assert_eq!(times(sources), [0, 0, 9_000, 9_000]);
    }
}

#[test]
fn a_trace_out_of_order_is_named_with_its_line() {
    let a = disksim("a.txt", &[(1, 0, 8), (9, 0, 16)]);
    let b = disksim("b.txt", &[(2, 0, 8), (5, 0, 16), (4, 0, 24)]);
    let error = read(&Source::joined(vec![a.clone(), b])).unwrap_err().to_string();
    assert!(error.starts_with("b.txt: line 3: not in order of time: 1000000 ns"), "{error}");
    let days = Source::from_bytes("days.lis", &fixture("arc.lis")).unwrap();
    let error = read(&Source::joined(vec![a, days])).unwrap_err().to_string();
    assert!(error.starts_with("days.lis: has no times"), "{error}");
}
