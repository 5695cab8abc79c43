//! Histories with replicas in discarded pages.

use super::*;

/// A record sent during a checkpoint names an older tail than the superblock. Entries before the
/// newer tail do not come back.
#[test]
fn an_older_tail_in_the_log_brings_nothing_back() {
    let text = "w220+16 w110+2 w188+56 W4+8 d108+32 settle11296791047197221015 repeat3 \
                settle6968010622243367218 crash10462587185068127645:11 w28+24 \
                replicate14:4+3/16:27+1 r29+2 x4 w23+4 w23+4 flush repeat3 w12+80 \
                settle2339556393551815742 w36+12 x56 flush x28";
    held(History::with_replicas(37), text, &[5_376_942_182_401_617_089]);
}

/// A page is written and absorbed while a round is about to call it free. No record behind a
/// checkpoint calls it free.
#[test]
fn a_page_that_is_written_is_not_called_free_any_more() {
    let text = "D101+23 r73+22 replicate0:2+3,26+1,4+3 x3 W142+64 replicate0:21+3,6+2,10+2/0:5+3 \
                x60 replicate9:20+1,1+2,7+2/0:1+2,0+2 d78+8 replicate0:26+1,7+2/0:20+1 \
                install110+16+0,190+16+0,110+8+16,94+24+0,110+24+8,30+24+16,110+24+8,110+8+0 x12 \
                W107+12 d102+32 d86+128 w110+8 x26 d182+40 x34 replicate25:8+1/22:16+2,17+1,9+1 \
                d78+56 r90+38 d101+5 r111+37 w78+32 D119+2 repeat0 d70+24 \
                replicate20:3+3,8+1,20+3/23:7+1,23+1 repeat2 settle566409539458823013";
    held(History::with_replicas(85_000_035), text, &[1]);
}

/// A page is written while a round is about to call it stained. It is not absorbed before the area
/// knows that it is used. Otherwise the record that calls it stained would come after its data:
/// after a crash reads would find the log's data, and zeroes after its destage.
#[test]
fn a_page_that_is_about_to_be_called_stained_is_not_absorbed() {
    let text = "d52+136 D84+104 replicate19:17+3,35+3/16:19+1,6+2,0+2 x15 w416+192 x24 w608+448 \
                w480+320 replicate8:32+1 d159+17 replicate6:37+2/18:21+1,13+3,10+3 \
                settle5648348424458152421";
    held(History::with_replicas(209_000_048), text, &[10_232_971_874_912_810_759]);
}

/// A write waits for its region to be open. Meanwhile the stained page beside it is cleaned once,
/// not all the time.
#[test]
fn a_page_that_a_waiting_write_takes_is_cleaned_once() {
    let text = "d76+160 x14 replicate12:35+3,32+2,27+3/27:31+3 D308+16 replicate1:37+1,36+3,15+2 \
                slow-area-writes d4+64 settle15734564667299840665 W20+16 withdraw restart";
    held(History::with_replicas(210_000_017), text, &[]);
}

/// A write waits for zeroes beside it. Meanwhile no page of the write buffer is written over it.
#[test]
fn a_page_does_not_come_home_over_a_write_that_waits_for_zeroes() {
    let text = "d320+112 D0+112 w264+24 w170+11 d160+128 d32+96 settle9548198960265090940 \
                replicate12:12+3,48+3/14:34+2,8+2 w128+24 settle1491235560334588173";
    held(History::with_replicas(2_126_000_084), text, &[864_099_757_172_742_244]);
}

/// Replicas are withdrawn once no page is stained, and no discard in flight can make a page stained
/// again.
#[test]
fn a_discard_under_way_does_not_outlast_a_withdrawal() {
    let text = "d0+64 settle10724723992646800253 replicate3:15+1 w8+24 withdraw drain \
                write-through w32+72 settle13584425468748455160 d0+88 restart32+20";
    held(History::with_replicas(2_003_000_059), text, &[]);
}

/// A page that never held a replica is not stained, whatever the client does while the area learns
/// that the page is free. After a withdrawal nobody would clean it.
#[test]
fn a_page_that_is_written_and_discarded_while_it_is_called_free_is_not_stained() {
    let text = "d213+22 w240+16 d216+32 w210+11 d240+56 \
                install224+24+0,208+24+0,144+24+0,224+16+0,200+16+8,264+8+0,24+24+16 d249+1 \
                D241+11 W240+16 x34 d208+104 d208+96 x30 x24 write-back d208+104 restart242+10";
    held(History::with_replicas(9_602_000_046), text, &[]);
}

/// Replicas that the area cannot record make way for the checkpoint that repairs its log.
#[test]
fn a_log_that_failed_under_replicas_goes_on() {
    let text = "d23+120 x9 break-area-write7 pass replicate7:17+3 break-area-read heal";
    held(History::with_faults(2_105_000_015, true), text, &[]);
}

/// A region that one round could not open is opened by the next. A write that waits meanwhile goes
/// on then, or fails.
#[test]
fn who_waits_for_a_region_goes_on_whichever_round_tells_of_it() {
    let text = "W191+8 restart166+20 d191+8 x62 repeat0 flush break-area-flush x49 x7 x60 w185+15 \
                heal";
    held(History::with_faults(2_420_000_062, true), text, &[]);
}

/// A page that the area may call free does not count as stained, even if a record of its cleaning
/// was on the way.
#[test]
fn what_the_area_may_take_for_clean_does_not_count_as_stained() {
    let text = "drain replicate22:14+3,9+2 d124+80 heal withdraw break-area-write \
                settle5441029808904492466 w202+5 x0";
    held(History::with_faults(2_660_000_237, true), text, &[47_584_624_101_050_292]);
}

/// No write waits for ever if the area cannot record that zeroes replaced replicas. This is for a
/// closed region. For an open one see the unit test
/// `a_write_fails_where_the_area_cannot_be_told_of_zeroes` of the free map.
#[test]
fn nobody_waits_for_what_the_area_cannot_be_told_of_zeroes() {
    let text = "d191+8 d151+40 x16 x26 replicate18:17+1,17+3,15+3/1:20+2,19+1,15+3 \
                break-area-flush withdraw w191+8 settle3178339877995524214 w159+8 heal";
    held(History::with_faults(2_420_000_062, true), text, &[]);
}

/// Replicas stay if home takes no zeroes, and the engine names its trouble.
#[test]
fn a_withdrawal_that_home_keeps_says_so() {
    let text = "D144+104 x43 break-home-write replicate20:22+1,0+3,19+3 x52 withdraw heal";
    held(History::with_faults(2_400_000_018, true), text, &[]);
}

/// No request waits for a full log if the checkpoint that would make space fails.
#[test]
fn nobody_waits_for_a_full_log_that_cannot_go_on() {
    let text = "d80+128 w56+112 x9 break-area-flush withdraw restart w176+24 break-area-write heal";
    held(History::with_faults(2_201_000_051, true), text, &[]);
}

/// A write to a discarded page failed. Its remains are what a read returns: before a crash, after
/// it, and from bare home.
#[test]
fn a_discarded_page_whose_write_failed_is_read_as_home_has_it() {
    let text = "d23+72 x14 break-home-write w23+104 heal";
    held(History::with_faults(2_101_000_020, true), text, &[6_679_661_146_299_608_871]);
}

/// A page whose staining the area could not record is written only once the area knows that its
/// region is open.
#[test]
fn what_the_area_was_not_told_is_stained_does_not_count_as_such() {
    let text = "d8+152 w32+16 settle15888833837764859463 replicate8:35+3,24+3 break-area-flush \
                w57+17 w93+4 settle7113830946236746201";
    held(History::with_faults(2_109_000_065, true), text, &[0, 1, 2]);
}

/// A record that the device failed proves nothing: damage before it is not reported.
#[test]
fn a_write_that_failed_vouches_for_nothing() {
    let text = "w336+16 w328+8 restart333+11 w360+8 heal w96+16 r299+33 w320+16 w360+8 x40 w344+8 \
                x15 W360+16 x28 W320+8 x33 x13 break-area-write7 settle8913831110263397677";
    held(History::with_faults(73, false), text, &[15_199_769_146_976_240_467]);
}

/// A guard that protects replicas goes down only when no round in progress, nor the next, can call
/// a page stained: else the area would overwrite with zeroes what somebody then writes at home.
#[test]
fn a_guard_stays_up_while_a_round_may_still_stain_a_page() {
    let never_written = "w152+24 W160+2 heal d24+136 x30 repeat1 break-home-write \
                         replicate1:2+2/4:40+2,33+1 withdraw heal";
    let drained = "d24+104 settle16702177184284327840 replicate6:8+1,19+2,30+1 drain \
                   settle17391329641164499827 d14+10 settle18225158993968542283";
    for (seed, text) in [(5_001_534, never_written), (5_001_732, drained)] {
        let mut history = History { steps: steps(text), ..History::with_faults(seed, true) };
        (history.setup.unused, history.setup.area_forgets) = ((0, 0), false);
        looked(&history, &Looks::These(vec![0]));
    }
}

/// A write waits for a read of the replica in its place. The checksum of that read is the last
/// event: the write then asks for a round, and the round begins at once.
#[test]
fn a_write_that_waits_for_a_reader_begins_its_round() {
    let setup = Setup {
        home: 404,
        area: 1280,
        segment_pages: 8,
        write_buffer_percent: 40,
        replicas: 168,
        placement: Placement::Elsewhere,
        read_ahead: 8192,
        cluster: 8192,
        stage_bytes: 1 << 18,
        background_rate: 1_024_000_000_000,
        at_once: true,
        ends: 8,
        append_pages: 3,
        ..Setup::plain()
    };
    let text = "pass w76+2 z200+16 replicate25:7+2,12+3,48+2 x21 replicate17:20+3,33+3 d100+15 \
                flush install80+16+16,72+16+0,96+8+16,72+16+0 x0 x0 x40 x21 d80+160 d288+8 \
                settle15690015523191989523 z290+6 d218+6 w392+8 w396+4 replicate20:4+2,49+1 x34 \
                x35 x2 z96+16 x54 x10 x15 x49 x37 replicate18:43+2,15+1,18+3 w226+2 x10 scrub x6 \
                x19 x49 x62 D32+8 d88+104 d376+5";
    let looks = Looks::These(vec![11_781_224_906_031_810_219]);
    looked(&History { seed: 0, setup, steps: steps(text) }, &looks);
}
