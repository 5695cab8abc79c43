//! Imports DiskSim descriptions, written for these tests.

use seekless_block::{Extent, Lba, Op, SimTime};
use seekless_disk::{
    Disk, DiskSpec, ImportError, PlatterPosition, ReadAhead, SeekSpec, SpareRule, WriteBack,
    ZeroLatency, import_disksim,
};

const MODEL: &str = "
# two surfaces, one zone
dm_disk TOY {
   Number of data surfaces = 2,
   Number of cylinders = 4,
   Block count = 70,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 9,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 3, Blocks per track = 10,
            Offset of first block = 1.9, Empty space at zone front = 2,
            Skew for track switch = 2.0, Skew for cylinder switch = 3.0,
            Number of spares = 5, slips = [ 12, 13 ], defects = [ 30, 78 ]
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = extracted,
      Full seek curve = toy.seek,
      Add. write settling delay = 0.5,
      Head switch time = 1.0,
      Rotation speed (in rpms) = 6000,
   }
}
";

const SPECS: &str = "
disksim_disk TOY_WHOLE {
   Model = source toy.model,
   Time scale for overheads = 2.0,
   Per-request overhead time = 0.25,
   Bulk sector transfer time = 0.1,
   Immediate buffer read = 1,
   Number of buffer segments = 4, Segment size (in blks) = 20, Enable caching in buffer = 1,
   Buffer continuous read = 3, Maximum read-ahead (blks) = 15,
   Fast write level = 2,
   Read hit over. after read = 0.1, Read hit over. after write = 0.2,
   Read miss over. after read = 0.3, Read miss over. after write = 0.4,
}
";

const SEEK: &str = "Seek distances measured: 3\n1,\t2.0\n2, 3.0\n3 4.0\n";

const TREE: &str = "
dm_disk TREE {
   Number of data surfaces = 2, Number of cylinders = 8, Block count = 74,
   Layout Model = dm_layout_g4 {
      TP = [ 0, 4, 5,  0, 4, 6 ],
      IDX = [
         [ 0, 0, 0.0, 5, 1, 0.25, 10, 2, TRACK, 0, 0,
           10, 1, 0.5, 5, 1, 0.25, 10, -2, TRACK, 0, 1 ],
         [ 0, 0, 0.0, 20, 2, 0.125, 40, 4, IDX, 0, 0,
           40, 4, 0.0, 5, 1, 0.0, 20, 4, TRACK, 1, 1,
           60, 7, 0.0, 5, 1, 0.0, 20, -4, TRACK, 1, 0 ]
      ],
      Slips = [ 3, 2, 41, 1 ],
      Remaps = [ 20, 1, 7, 0, 5, 6 ]
   },
   Mechanical Model = source mech
}
";

const MECH: &str = "dm_mech_g1 { Seek type = hplplus10, First ten seek times = [ 2, 3 ],
   HPL seek equation values = [ 4, 1.0, 0.5, 3.0, 0.1, -1 ], Head switch time = 1.0, Rotation speed (in rpms) = 6000 }";

fn open(name: &str) -> Result<String, String> {
    match name {
        "toy.model" => Ok(MODEL.to_owned()),
        "toy.seek" => Ok(SEEK.to_owned()),
        "mech" => Ok(MECH.to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn import(text: &str) -> Result<DiskSpec, ImportError> {
    import_disksim("dir/toy.diskspecs", text, &mut |n| open(n))
}

#[test]
fn every_parameter_is_imported() {
    let spec = import(SPECS).unwrap();
    assert_eq!((spec.name.as_str(), spec.title.as_str()), ("toy", "TOY_WHOLE"));
    // 4 cylinders of 2 x 10 sectors, 5 spares, 2 unused.
    assert_eq!(spec.capacity_sectors, 80 - 5 - 2);
    assert_eq!(spec.mechanics.zero_latency, ZeroLatency::Reads);
    assert_eq!(spec.mechanics.write_settle_ms, 0.5);
    assert_eq!(spec.seek, SeekSpec::Table { points: vec![(1, 2.0), (2, 3.0), (3, 4.0)] });
    let z = &spec.geometry.zones[0];
    assert_eq!((z.offset, z.track_skew, z.spare_rule, z.spares), (1.0, 2.0, SpareRule::Zone, 5));
    assert_eq!((&z.slips[..], &z.remaps[..]), (&[12, 13][..], &[(30, 78)][..]));
    let c = spec.controller.as_ref().unwrap();
    // Overheads are scaled by two, and each command takes 0.25 ms twice in addition.
    assert_eq!((c.read_hit_ms, c.read_miss_ms), ([0.7, 0.9], [1.1, 1.3]));
    // The drive reads on arrival. Without that, it settles for the time of the shortest seek.
    assert_eq!((c.bus_sector_ms, c.settle_ms), ([0.1; 2], 0.0));
    let waits = SPECS.replace("Immediate buffer read = 1", "Immediate buffer read = 0");
    assert_eq!(import(&waits).unwrap().controller.unwrap().settle_ms, 2.0);
    assert_eq!((c.read_ahead, c.write_back), (ReadAhead::Segment, WriteBack::All));
    assert_eq!(c.read_ahead_sectors, 15);
    // 0 sectors mean as many as a segment holds.
    let full = SPECS.replace("Maximum read-ahead (blks) = 15", "Maximum read-ahead (blks) = 0");
    assert_eq!(import(&full).unwrap().controller.unwrap().read_ahead_sectors, 20);
    // The same after a round trip through TOML.
    assert_eq!(DiskSpec::parse("again", &spec.to_toml().unwrap()).unwrap(), spec);
}

#[test]
fn the_layout_of_a_zone_by_hand() {
    let disk = Disk::new(&import_disksim("toy.model", MODEL, &mut |n| open(n)).unwrap()).unwrap();
    let place = |lba| {
        let PlatterPosition { cylinder, head, sector, .. } =
            disk.geometry().place(Lba(lba)).unwrap();
        (cylinder, head, sector)
    };
    // Two sectors are unused in front; 12 and 13 slip; the head order is reversed on odd cylinders;
    // 30 is at 78.
    for (lba, at) in [
        (0, (0, 0, 2)),
        (7, (0, 0, 9)),
        (8, (0, 1, 0)),
        (9, (0, 1, 1)),
        (10, (0, 1, 4)),
        (16, (1, 1, 0)),
        (25, (1, 1, 9)),
        (26, (3, 0, 8)),
        (27, (1, 0, 1)),
    ] {
        assert_eq!(place(lba), at, "sector {lba}");
    }
    for lba in 0..disk.capacity().get() {
        assert_eq!(
            disk.geometry().address(disk.geometry().place(Lba(lba)).unwrap()),
            Some(Lba(lba))
        );
    }
}

#[test]
fn the_layout_of_a_tree_by_hand() {
    let spec = import_disksim("tree.model", TREE, &mut |n| open(n)).unwrap();
    assert_eq!(DiskSpec::parse("again", &spec.to_toml().unwrap()).unwrap(), spec);
    let mut disk = Disk::new(&spec).unwrap();
    let g = disk.geometry();
    assert_eq!(g.cylinders(), 8);
    // Address 3 slips two, 41 (39 for the client) one more.
    for (lba, at) in [
        (0, (0, 0, 0)),
        (2, (0, 0, 2)),
        (3, (1, 0, 0)),
        (8, (1, 1, 0)),  // tree 10: second surface, backwards from cylinder 1
        (13, (0, 1, 0)), // tree 15
        (18, (2, 0, 0)), // tree 20: the pattern again, two cylinders further
        (20, (7, 0, 5)), // remapped
        (38, (4, 1, 0)), // tree 40
        (39, (4, 1, 2)), // tree 42
        (57, (7, 0, 0)), // tree 60
        (73, (4, 0, 1)), // tree 76
    ] {
        let PlatterPosition { cylinder, head, sector, .. } = g.place(Lba(lba)).unwrap();
        assert_eq!((cylinder, head, sector), at, "sector {lba}");
    }
    let mut seen = std::collections::BTreeSet::new();
    for lba in 0..disk.capacity().get() {
        let place = g.place(Lba(lba)).unwrap();
        assert!(seen.insert((place.cylinder, place.head, place.sector)));
        assert_eq!(g.address(place), Some(Lba(lba)), "{place:?}");
    }
    let zones: Vec<_> = g.zones().collect();
    assert_eq!(zones, [(Lba(0), Lba(37), 5), (Lba(38), Lba(73), 6)]);
    // Angles: sector 18 is at 1/8, one track later at 3/8 of 10 ms; track 4's first sector at 0.
    let mut at = |lba, ns| disk.access(SimTime(ns), Op::Read, Extent::new(lba, 1)).unwrap();
    let a = at(18, 0); // two cylinders: 3 ms; at 3 ms the wait to 11.25 ms is 8.25
    assert_eq!((a.seek.0, a.rotation.0, a.transfer.0), (3_000_000, 8_250_000, 2_000_000));
    let a = at(23, 20_000_000); // one cylinder on, 3/8 + 0: 2 ms, then to 23.75 ms
    assert_eq!((a.seek.0, a.rotation.0), (2_000_000, 1_750_000));
}

#[test]
fn a_whole_tree_read_at_once_ends_where_single_sectors_end() {
    let spec = import_disksim("tree.model", TREE, &mut |n| open(n)).unwrap();
    let mut whole = Disk::new(&spec).unwrap();
    let mut parts = whole.clone();
    let total = whole.access(SimTime(5), Op::Read, Extent::new(0, 74)).unwrap().total();
    let mut now = SimTime(5);
    for lba in 0..74 {
        now += parts.access(now, Op::Read, Extent::new(lba, 1)).unwrap().total();
    }
    assert!(now.since(SimTime(5)).0.abs_diff(total.0) <= 1);
}

#[test]
fn errors_name_file_and_line() {
    let told = |text: &str| import(text).unwrap_err().to_string();
    assert_eq!(
        told("disksim_disk A {\n Model = source gone.model\n}"),
        "dir/toy.diskspecs:2: names the file 'gone.model', which cannot be read: no such file"
    );
    assert!(
        told("disksim_disk A {\n\n Fast write level = 7,\n Model = source toy.model }")
            .starts_with("dir/toy.diskspecs:3: Fast write")
    );
    assert!(told("nothing").contains("no 'disksim_disk'"));
    let model = MODEL.replace("Blocks per track = 10", "Blocks per track = ten");
    let e = import_disksim("m", &model, &mut |n| open(n)).unwrap_err().to_string();
    assert_eq!(e, "m:12: Blocks per track: 'ten' is not a number");
    let model = MODEL.replace("6000", "1e9");
    let e = import_disksim("m", &model, &mut |n| open(n)).unwrap_err().to_string();
    assert_eq!(e, "m: mechanics.rpm is 1000000000; allowed: 60 to 30000 revolutions a minute");
}

#[test]
fn numbers_that_are_too_large_are_refused() {
    let cylinders = ("Last cylinder number = 3", "Last cylinder number = 4294967295");
    let heads = ("Number of data surfaces = 2", "Number of data surfaces = 4294967295");
    // Spares of each track, on 2,000 tracks.
    let more = ("Last cylinder number = 3", "Last cylinder number = 999");
    let scheme = ("Sparing scheme used = 9", "Sparing scheme used = 3");
    let spares = ("Number of spares = 5", "Number of spares = 900000000000000000");
    for changes in [&[cylinders][..], &[cylinders, heads], &[more, scheme, spares]] {
        let mut text = MODEL.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let imported = import_disksim("toy.model", &text, &mut |n| open(n));
        assert!(imported.is_err(), "{changes:?}");
    }
    let mut tree = import_disksim("tree.model", TREE, &mut |n| open(n)).unwrap();
    tree.geometry.tree.as_mut().unwrap().remaps[0][1] = u64::MAX;
    assert!(Disk::new(&tree).is_err());
}

#[test]
fn no_truncation_or_changed_byte_panics() {
    for text in [MODEL, SPECS, TREE] {
        for end in 0..text.len() {
            let _ = import_disksim("x", &text[..end], &mut |n| open(n));
        }
        for i in 0..text.len() {
            for digit in ["0", "9", "-", "e", "}"] {
                let mut changed = text.to_owned();
                changed.replace_range(i..=i, digit);
                if let Ok(spec) = import_disksim("x", &changed, &mut |n| open(n)) {
                    let mut disk = Disk::new(&spec).unwrap();
                    let end = disk.capacity().get() - 1;
                    disk.access(SimTime(1), Op::Write, Extent::new(end, 1)).unwrap();
                    disk.access(SimTime(1), Op::Read, Extent::new(0, end.min(1_000))).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_drive_that_releases_the_bus_before_it_takes_the_data_of_a_write() {
    let more = "Data preparation overhead = 0.01, First reselect overhead = 0.02, Other reselect overhead = 0.04,
        Write completion overhead = 0.1, Extra write disconnect = 1, Extradisc command overhead = 0.2,
        Extradisc disconnect overhead = 0.08, Extradisc inter-disconnect delay = 0.3, Extradisc seek delta = 0.05,
        Minimum seek delay = 0.32,\n}";
    let text = SPECS
        .replace("Time scale for overheads = 2.0", "Time scale for overheads = 1.0")
        .replacen('}', more, 1);
    let spec = import(&text).unwrap();
    assert_eq!(DiskSpec::parse("again", &spec.to_toml().unwrap()).unwrap(), spec);
    let c = spec.controller.unwrap();
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    // Each command takes 0.25 in addition. Hits and writes prepare data.
    near(c.read_hit_ms[0], 0.25 + 0.1 + 0.01);
    near(c.read_miss_ms[0], 0.25 + 0.3);
    near(c.write_miss_ms[0], 0.25);
    near(c.write_data_ms, 0.01);
    near(c.write_end_ms, 0.1 + 0.02);
    // Only a write's movement has a minimum time, and only a write elsewhere after a write is
    // disconnected.
    near(c.write_seek_ms, 0.32);
    let elsewhere = c.write_elsewhere.unwrap();
    near(elsewhere.miss_ms, 0.25 + 0.2 + 0.05);
    near(elsewhere.miss_ms + elsewhere.data_ms, 0.25 + 0.2 + 0.08 + 0.3 + 0.02 + 0.01);
    near(elsewhere.end_ms, 0.1 + 0.04);
    assert_eq!(c.write_gather_sectors, [10, 15]);
    near(c.reconnect_ms, 0.02 + 0.01);
    near(c.settle_ms, 0.0);
}

#[test]
fn a_tree_nested_without_end_is_refused() {
    let track = "[ 0, 0, 0.0, 5, 1, 0.0, 5, 1, TRACK, 0, 0 ]";
    let inner = |n: usize| format!(", [ 0, 0, 0.0, 5, 1, 0.0, 5, 1, IDX, {n}, 0 ]");
    let tree = |depth: usize| {
        let nodes: String = (0..depth).map(inner).collect();
        let (i, j) = (TREE.find("IDX = [").unwrap(), TREE.find("Slips").unwrap());
        let text = format!("{}IDX = [ {track}{nodes} ],\n{}", &TREE[..i], &TREE[j..]);
        text.replace("Slips = [ 3, 2, 41, 1 ],", "")
            .replace("Remaps = [ 20, 1, 7, 0, 5, 6 ]", "")
            .replace("= 74", "= 5")
    };
    assert_eq!(import_disksim("t", &tree(40), &mut |n| open(n)).unwrap().capacity_sectors, 5);
    let e = import_disksim("t", &tree(100_000), &mut |n| open(n)).unwrap_err().to_string();
    assert!(e.contains("64"), "{e}");
}

/// A host as in DiskSim's `.parv` files: it names the drive, or contains it.
fn host(drive: &str) -> String {
    format!(
        "disksim_global Global {{ Init Seed = 42 }}\n\
         disksim_bus BUS0 {{ Read block transfer time = 0.0, Write block transfer time = 0.0 }}\n\
         disksim_bus BUS1 {{ Read block transfer time = 0.17, Write block transfer time = 0.18 }}\n\
         # the drive\n{drive}\n# components\ninstantiate [ bus0 ] as BUS0\ninstantiate [ disk0 ] as TOY_WHOLE\n\
         topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_disk disk0 [] ] ]\n"
    )
}

#[test]
fn a_host_names_its_drive_and_times_the_bus() {
    let slow = SPECS.replace("Bulk sector transfer time = 0.1", "Bulk sector transfer time = 0.0");
    let files = |name: &str| match name {
        "slow.diskspecs" => Ok(slow.clone()),
        "toy.parv" => Ok(host("")),
        other => open(other),
    };
    let bus = |file: &str, text: &str| {
        let spec = import_disksim(file, text, &mut |n| files(n)).unwrap();
        assert_eq!((spec.title.as_str(), spec.capacity_sectors), ("TOY_WHOLE", 73));
        spec.controller.unwrap().bus_sector_ms
    };
    assert_eq!(bus("a.parv", &host("source slow.diskspecs")), [0.17, 0.18]);
    assert_eq!(bus("a.parv", &host(&slow)), [0.17, 0.18]);
    assert_eq!(bus("a.parv", &host(&format!("source gone\n{slow}"))), [0.17, 0.18]);
    // Imported alone: the bus time comes from the host's file beside it, or is 5 MB/s. The drive's
    // own value has priority.
    assert_eq!(bus("dir/toy.diskspecs", &slow), [0.17, 0.18]);
    assert_eq!(bus("dir/other.diskspecs", &slow), [0.1024; 2]);
    assert_eq!(bus("dir/toy.diskspecs", SPECS), [0.1; 2]);
    assert_eq!(bus("a.parv", &host(SPECS)), [0.1; 2]);
    let e = import_disksim("a.parv", &host("source gone"), &mut |n| files(n)).unwrap_err();
    assert!(e.to_string().contains("'gone'"), "{e}");
}
