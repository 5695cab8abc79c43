#![allow(clippy::all, clippy::pedantic, missing_docs)]
use seekless_block::*;
use seekless_layout::Training;
use seekless_study::*;
use seekless_trace::Source;
use seekless_trace::synth::Synthetic;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let scale: f64 = a[2].parse().unwrap();
    let s = Synthetic::new(&a[1], scale, 1).unwrap();
    let src = Source::synthetic(s);
    let gb: f64 = a[4].parse().unwrap();
    let wb: u8 = a[5].parse().unwrap();
    let sys = |area: f64| BorgSystem {
        disk: seekless_disk::catalogue::device(&a[3]).unwrap(),
        area: Bytes(((area * scale * 1024.0).round() as u64) << 20),
        write_buffer_percent: if area > 0.0 { wb } else { 0 },
        training: Training::Cumulative,
        replay: if a[6] == "open" {
            seekless_sim::Replay::Open
        } else {
            seekless_sim::Replay::Closed { depth: 1 }
        },
        reconfigure: (1..5).map(|k| SimTime(604_800_000_000_000 * k / 5)).collect(),
    };
    let jobs = [0.0, gb].map(|x| BorgJob {
        source: &src,
        capacity: s.size().sectors_ceil(),
        system: sys(x),
    });
    let r = borg(&jobs, &|_| {}).unwrap();
    for (i, run) in r.iter().enumerate() {
        println!("system {i}");
        for p in &run.phases {
            println!(
                "  req {} busy {:.1} bg {:.1} nonseq {:.4} seek {:.0} absorbed {} destaged {} copies {} resp {:.2}",
                p.requests,
                p.busy_s,
                p.background_s,
                p.nonsequential_share(),
                p.seek_mean_sectors(),
                p.absorbed,
                p.destaged_bytes >> 20,
                p.copy_hits,
                p.response_ms
            );
        }
        for r in &run.reconfigurations {
            println!("  R {:.1} s {:?}", r.reconfigurer_s, r.change);
        }
    }
}
