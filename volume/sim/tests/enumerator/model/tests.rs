//! The rules of the model, one by one.

use super::*;

const AT: Extent = Extent::new(3, 1);

struct Twin(Model);

impl Twin {
    fn issue(&mut self, op: Op, flags: Flags, token: u64) -> Issued {
        self.0.issue(op, AT, flags, token)
    }

    fn write(&mut self, token: u64) {
        let w = self.issue(Op::Write, Flags::NONE, token);
        self.0.end(w, &[]).unwrap();
    }

    fn read(&mut self, token: u64) -> bool {
        let r = self.issue(Op::Read, Flags::NONE, 0);
        self.0.end(r, &encode(token, 3)).is_ok()
    }

    fn flush(&mut self) {
        let f = self.issue(Op::Flush, Flags::NONE, 0);
        self.0.end(f, &[]).unwrap();
    }

    /// Which of these may be there after a crash.
    fn survivors(&self) -> Vec<u64> {
        let mut model = self.0.clone();
        model.crash();
        [INITIAL, 0, 1, 2, 3]
            .into_iter()
            .filter(|&t| model.survives(3, &encode(t, 3)).is_ok())
            .collect()
    }
}

fn twin() -> Twin {
    Twin(Model::new(8))
}

#[test]
fn a_flush_covers_what_had_ended_when_it_was_asked() {
    let mut t = twin();
    t.write(1);
    assert_eq!(t.survivors(), [INITIAL, 1], "not flushed: either");
    assert!(!t.read(INITIAL) && t.read(1), "but alive it is the new one");
    let flush = t.issue(Op::Flush, Flags::NONE, 0);
    t.write(2);
    t.0.end(flush, &[]).unwrap();
    assert_eq!(t.survivors(), [1, 2]);
    t.flush();
    assert_eq!(t.survivors(), [2]);
    let fua = t.issue(Op::Write, Flags::FUA, 3);
    assert_eq!(t.survivors(), [2, 3], "in flight: either");
    t.0.end(fua, &[]).unwrap();
    assert_eq!(t.survivors(), [3]);
}

#[test]
fn a_read_may_return_what_was_there_when_it_was_asked() {
    let mut t = twin();
    let read = t.issue(Op::Read, Flags::NONE, 0);
    let write = t.issue(Op::Write, Flags::FUA, 1);
    t.0.end(write, &[]).unwrap();
    assert_eq!(t.survivors(), [1]);
    t.0.end(read, &encode(INITIAL, 3)).unwrap();
    assert!(!t.read(INITIAL));
}

#[test]
fn what_reads_showed_orders_writes_that_were_in_flight_together() {
    let mut t = twin();
    let (a, b) = (t.issue(Op::Write, Flags::NONE, 1), t.issue(Op::Write, Flags::NONE, 2));
    assert!(t.read(1), "in flight, and it may be read");
    t.0.end(a, &[]).unwrap();
    t.0.end(b, &[]).unwrap();
    let mut other = Twin(t.0.clone());
    other.flush();
    assert_eq!(other.survivors(), [1, 2], "nobody knows which came last");
    assert!(t.read(2) && !t.read(1), "1 was seen, then 2: 1 is over");
    t.flush();
    assert_eq!(t.survivors(), [2]);
}

/// Until a promise after its failure, a crash may bring it back.
#[test]
fn a_write_that_failed_is_settled_by_the_next_promise() {
    let failing = |t: &mut Twin, second: Option<Flags>| {
        let failed = t.issue(Op::Write, Flags::NONE, 1);
        let other = second.map(|flags| t.issue(Op::Write, flags, 2));
        t.0.fail(failed);
        if let Some(other) = other {
            t.0.end(other, &[]).unwrap();
        }
    };
    let mut t = twin();
    failing(&mut t, None);
    assert!(t.read(INITIAL), "it did not take effect");
    assert_eq!(t.survivors(), [INITIAL, 1], "and may yet");
    let mut other = Twin(t.0.clone());
    t.flush();
    assert_eq!(t.survivors(), [INITIAL]);
    // A flush that was requested during the write, and answered after its failure.
    failing(&mut other, Some(Flags::FUA));
    assert!(other.read(2));
    assert_eq!(other.survivors(), [2]);
    let mut other = twin();
    failing(&mut other, Some(Flags::NONE));
    assert!(other.read(2));
    assert_eq!(other.survivors(), [INITIAL, 1, 2]);
}

#[test]
fn after_a_crash_the_first_look_settles_it() {
    let mut t = twin();
    t.write(1);
    t.0.crash();
    let mut other = Twin(t.0.clone());
    assert!(t.read(INITIAL) && !t.read(1));
    assert_eq!(t.survivors(), [INITIAL], "and no later crash unsettles it");
    assert!(other.read(1) && !other.read(INITIAL));
    assert!(!other.read(2));
}

#[test]
fn a_discard_may_be_a_hint_and_zeroes_are_not() {
    let mut t = twin();
    let d = t.issue(Op::Discard, Flags::NONE, 0);
    t.0.end(d, &[]).unwrap();
    let mut other = Twin(t.0.clone());
    assert!(t.read(INITIAL));
    assert!(other.read(0) && !other.read(INITIAL), "once gone it is gone");
    let z = t.issue(Op::WriteZeroes, Flags::FUA, 0);
    t.0.end(z, &[]).unwrap();
    assert!(!t.read(INITIAL));
    assert_eq!(t.survivors(), [0]);
}

#[test]
fn bytes_of_another_sector_or_of_two_writes_are_nobodys() {
    assert_eq!(decode(&encode(7, 3), 3), Ok(7));
    assert!(decode(&encode(7, 4), 3).is_err());
    let mut torn = encode(7, 3);
    torn[300..].copy_from_slice(&encode(8, 3)[300..]);
    assert!(decode(&torn, 3).is_err());
    assert_eq!(decode(&encode(ZEROES, 3), 3), Ok(0));
}

/// After a crash only writes on stable storage count.
#[test]
fn a_page_that_the_area_forgot_may_be_unreadable_until_it_is_written_again() {
    let fails = |t: &mut Twin| {
        let read = t.issue(Op::Read, Flags::NONE, 0);
        t.0.fail(read);
        t.0.touches_unreadable(read, 0)
    };
    let write_page = |t: &mut Twin, flags: Flags, token: u64| {
        let write = t.0.issue(Op::Write, Extent::new(0, 8), flags, token);
        t.0.end(write, &[]).unwrap();
    };
    let is_lost_after_crash = |t: &Twin| {
        let mut model = t.0.clone();
        model.crash();
        model.has_unreadable()
    };
    let mut t = twin();
    t.write(1);
    t.flush();
    t.0.area_forgot(0, false);
    assert!(!fails(&mut t) && !t.0.has_unreadable(), "all was flushed");
    t.write(2);
    t.0.area_forgot(0, false);
    assert!(fails(&mut t) && is_lost_after_crash(&t));
    assert!(t.read(2) && !t.read(1), "but no read returns older bytes");
    t.write(3);
    assert!(fails(&mut t), "that is a part of the page");
    write_page(&mut t, Flags::NONE, 2);
    assert!(!fails(&mut t) && is_lost_after_crash(&t), "not flushed");
    write_page(&mut t, Flags::FUA, 3);
    assert!(!fails(&mut t) && !is_lost_after_crash(&t));
}

/// A copy that is written in place has no checksum.
#[test]
fn what_the_area_forgot_in_place_is_old_or_new_until_it_is_written_again() {
    let mut t = twin();
    t.write(1);
    t.flush();
    let in_flight = t.issue(Op::Write, Flags::NONE, 2);
    t.0.area_forgot(0, true);
    t.0.end(in_flight, &[]).unwrap();
    assert!(t.read(2) && t.read(1) && t.read(2) && !t.read(3));
    let mut other = Twin(t.0.clone());
    other.flush();
    assert_eq!(other.survivors(), [2], "a flush that ends well covers it");
    assert!(!other.read(1));
    t.0.doubt();
    t.flush();
    assert_eq!(t.survivors(), [1, 2], "no flush covers it");
    t.write(3);
    assert!(t.read(3) && !t.read(1) && !t.read(2));
    t.flush();
    assert_eq!(t.survivors(), [3]);
}
