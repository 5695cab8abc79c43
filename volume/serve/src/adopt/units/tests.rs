//! Names of units, the lines of a unit, and the links that start it.

use super::*;

#[test]
fn names_of_units_are_those_of_systemd_escape() {
    for (path, name) in [
        ("/srv/data", "srv-data"),
        ("/srv/my-data/", r"srv-my\x2ddata"),
        ("/dev/disk/by-id/ata-X_1", r"dev-disk-by\x2did-ata\x2dX_1"),
        ("/.a/.b", r"\x2ea-.b"),
        ("/a+b@c", r"a\x2bb\x40c"),
    ] {
        assert_eq!(escaped(Path::new(path)), name);
    }
}

#[test]
fn names_come_from_disks_and_odd_ones_are_refused() {
    for (path, name) in [
        ("/dev/sdb1", "sdb1"),
        ("/dev/mapper/vg-home", "vg_home"),
        ("/srv/disk.img", "disk"),
        ("/srv/.img", "img"),
        ("/srv/watch.img", "watch_"),
        ("/srv/my disk.img", "my_disk"),
        ("/srv/\u{e4}", "_"),
    ] {
        assert_eq!(name_of(Path::new(path)), name);
        check_name(name).unwrap();
    }
    for bad in ["", "a b", "../a", "a/b", ".a", "-a", "a%b", "watch", &"a".repeat(65)] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
    for bad in ["/a b", "/a%b", "/a$b", "/a\"b", "/a\\b", "/a\nb"] {
        assert!(check_path(Path::new(bad)).is_err(), "{bad}");
    }
}

#[test]
fn the_templates_have_what_an_adoption_replaces() {
    for unit in [FILE_UNIT, UBLK_UNIT] {
        for part in [PROGRAM, AREA, NEEDS, STATE] {
            assert_eq!(unit.matches(part).count(), 1, "{part}");
        }
    }
    assert_eq!(UBLK_UNIT.matches(RELOAD).count(), 1);
    assert_eq!(UBLK_UNIT.matches(SCRIPT_PATH).count(), 2);
    for unit in [FILE_UNIT, LOOP_UNIT] {
        assert_eq!(unit.matches(SERVED).count(), 1);
    }
}

#[test]
fn nobody_waits_for_a_unit_that_systemd_does_not_have() {
    for (shown, at_work) in [
        ("ActiveState=inactive\n", false),
        ("Job=0\nActiveState=failed\n", false),
        ("Job=\nActiveState=inactive\n", false),
        ("Job=7\nActiveState=inactive\n", true),
        ("ActiveState=active\n", true),
        ("ActiveState=activating\n", true),
        ("ActiveState=deactivating\n", true),
    ] {
        assert_eq!(is_at_work(shown), at_work, "{shown}");
    }
}

fn adopted(ublk: Option<u32>) -> Record {
    let mount = Mounted::at(Path::new("/srv/data"), None).unwrap();
    Record {
        name: "sdb1".to_owned(),
        backing: "/dev/sdb1".into(),
        area: "/var/sdb1.area".into(),
        mount: Some(mount),
        ublk,
        ..Record::default()
    }
}

#[test]
fn a_mount_is_required_if_its_line_of_fstab_was() {
    let entry = |options: &str| Entry {
        line: String::new(),
        dir: "/srv/data".into(),
        kind: "ext4".to_owned(),
        options: options.to_owned(),
    };
    let usual = ("multi-user.target.wants", "WantedBy=multi-user.target");
    let required = ("local-fs.target.requires", "RequiredBy=local-fs.target");
    // The device of the area may be gone when the machine starts.
    let wanted_early = ("local-fs.target.wants", "WantedBy=local-fs.target");
    for (entry, area_is_device, (folder, words)) in [
        (None, false, usual),
        (None, true, usual),
        (Some(entry("nofail")), false, usual),
        (Some(entry("nofail")), true, usual),
        (Some(entry("noatime")), false, required),
        (Some(entry("noatime")), true, wanted_early),
    ] {
        let mut record = Record { area_is_device, ..adopted(Some(3)) };
        record.mount = Some(Mounted::at(Path::new("/srv/data"), entry.as_ref()).unwrap());
        let link = Path::new(UNITS).join(folder).join("srv-data.mount");
        assert_eq!(wanted(&record).0, link);
        assert!(said(&record, "srv-data.mount").contains(&words.to_owned()), "{words}");
    }
}

#[test]
fn a_server_below_a_mount_that_waits_for_the_network_stops_before_the_network() {
    let order = "After=network.target network-online.target remote-fs-pre.target";
    for (options, waits) in [("noatime,_netdev", true), ("nofail", false), ("no_netdev", false)] {
        let entry = Entry {
            line: String::new(),
            dir: "/srv/data".into(),
            kind: "ext4".to_owned(),
            options: options.to_owned(),
        };
        let mount = Mounted::at(Path::new("/srv/data"), Some(&entry)).unwrap();
        assert_eq!(mount.waits_for_network(), waits, "{options}");
        for (ublk, unit) in [(Some(3), "seekless-ublk@"), (None, "seekless-file@")] {
            let record = Record { mount: Some(mount.clone()), ..adopted(ublk) };
            let server = said(&record, &format!("{unit}sdb1.service"));
            assert_eq!(server.iter().any(|l| l == order), waits, "{options}: {server:?}");
        }
    }
}

#[test]
fn no_mount_hides_what_its_server_needs() {
    let at = |dir: &str| {
        let mount = Mounted::at(Path::new(dir), None).unwrap();
        check_needed(Path::new("/srv/x/area"), &mount)
    };
    let folders = ["/srv", "/srv/x", "/var", "/usr", "/usr/lib", "/usr/bin", "/usr/sbin", "/bin"];
    for dir in folders.into_iter().chain(["/lib", "/lib/modules", "/sbin", "/etc/systemd"]) {
        assert!(at(dir).is_err(), "{dir}");
    }
    for dir in ["/srv/data", "/usr/local", "/usr/share/data", "/opt"] {
        at(dir).unwrap();
    }
}

/// What the text of the file says, without comments.
fn said(record: &Record, file: &str) -> Vec<String> {
    let texts = texts(record, Path::new("/usr/bin/seekless"), &[]);
    let (_, text) = texts.iter().find(|(path, _)| path.ends_with(file)).unwrap();
    text.lines().filter(|l| !l.starts_with('#')).map(ToOwned::to_owned).collect()
}

#[test]
fn a_mount_stays_while_the_server_of_its_ublk_device_is_started_again() {
    let record = adopted(Some(3));
    let names: Vec<_> = texts(&record, Path::new("/x"), &[]).into_iter().map(|t| t.0).collect();
    let units = Path::new(UNITS);
    let unit = "seekless-ublk@sdb1.service";
    let [settings, script] =
        ["conf", "sh"].map(|end| PathBuf::from(format!("/etc/seekless/sdb1.{end}")));
    let made = [settings, script, units.join(unit), units.join("srv-data.mount")];
    assert_eq!(names, made);
    assert!(said(&record, "sdb1.conf").contains(&"UBLK=3".to_owned()));
    let mount = said(&record, "srv-data.mount");
    let above: Vec<_> = mount.iter().filter(|l| l.contains("seekless-ublk@")).collect();
    assert_eq!(above, [&format!("Wants={unit}"), &format!("After={unit}")]);
    let server = said(&record, unit);
    for line in [
        "Restart=on-failure",
        "SendSIGKILL=no",
        "TimeoutStartSec=30min",
        r"Requires=dev-sdb1.device",
    ] {
        assert!(server.iter().any(|l| l == line), "{line}: {server:?}");
    }
    let mounts =
        "RequiresMountsFor=/var/lib/seekless /run/seekless /usr/bin/seekless /var/sdb1.area";
    assert!(server.iter().any(|l| l == mounts), "{server:?}");
    let again = "ExecStartPost=-/bin/sh -c 'if systemctl -q is-failed /srv/data; then systemctl start --no-block /srv/data; fi'";
    assert_eq!(server.iter().filter(|l| *l == again).count(), 1, "{server:?}");
    let bare = Record { mount: None, ..record.clone() };
    assert!(!said(&bare, unit).iter().any(|l| l.contains("is-failed")));
    let starts = "ExecStart=@/usr/bin/seekless @seekless serve ${BACKING} --ublk ${UBLK} --area ${AREA} $OPTIONS";
    assert!(server.iter().any(|l| l == starts), "{server:?}");
    assert!(!server.iter().any(|l| l.contains("STATE_DIRECTORY") || l.contains("StateDir")));
    // Whether or not the package is installed.
    let words = "%n /run/seekless/%i /dev/ublkb${UBLK}";
    for (key, verb) in [("ExecStartPost", "start"), ("ExecStop", "stop")] {
        let line = format!("{key}=-/bin/sh /etc/seekless/sdb1.sh {verb} {words}");
        assert!(server.contains(&line), "{line}: {server:?}");
    }
    assert!(said(&record, "sdb1.sh").contains(&"verb=$1 server=$2 folder=$3 device=$4".to_owned()));
    assert_eq!(stops(&record), ["srv-data.mount", unit]);
    assert_eq!(
        by_hand(&record)[1..],
        [
            "seekless serve /dev/sdb1 --area /var/sdb1.area --ublk 3 &",
            "mount /dev/ublkb3 /srv/data",
        ]
    );
}

#[test]
fn a_mount_stops_before_its_loop_device_and_with_it() {
    let record = adopted(None);
    let mount = said(&record, "srv-data.mount");
    assert!(mount.contains(&"Requires=seekless-loop@sdb1.service".to_owned()), "{mount:?}");
    assert!(!said(&record, "sdb1.conf").iter().any(|l| l.starts_with("UBLK")));
    let files = texts(&record, Path::new("/x"), &[]);
    assert!(!files.iter().any(|(path, _)| path.ends_with("sdb1.sh")));
    let server = said(&record, "seekless-file@sdb1.service");
    assert!(server.contains(&"TimeoutStartSec=30min".to_owned()), "{server:?}");
    let order = ["srv-data.mount", "seekless-loop@sdb1.service", "seekless-file@sdb1.service"];
    assert_eq!(stops(&record), order);
}
