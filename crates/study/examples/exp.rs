use seekless_block::Bytes;
use seekless_disk::{Scheduler, SpinDown, catalogue};
use seekless_sim::Replay;
use seekless_study::*;
use seekless_trace::{Event, OpenOptions, Source};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let trace = &a[1];
    let disk: seekless_disk::DeviceSpec = catalogue::get(&a[2]).unwrap().into();
    let mib = |s: &str| Bytes(s.parse::<u64>().unwrap() << 20);
    let env = |n: &str, d: u64| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let strategy: seekless_layout::Strategy = std::env::var("STRATEGY").unwrap_or("most-connected".into()).parse().unwrap();
    let training: seekless_layout::Training = std::env::var("TRAINING").unwrap_or("decaying".into()).parse().unwrap();
    let source = Source::new(trace);
    let open = OpenOptions { event: Event::Issue, lenient: false };
    let cache = Bytes(env("CACHE", 16) << 20);
    let replay = Replay::Closed { depth: 1 };
    match a[3].as_str() {
        "sim" => {
            let o = simulate(&source, &Options {
                open, device: None, disk, policies: vec![Policy::Vanilla, Policy::Borg, Policy::Oracle],
                cache, read_ahead: Bytes(65536), cluster: Bytes(65536), scheduler: Scheduler::Fcfs, spin_down: SpinDown::None,
                replay, train: 0.5, optimized: mib(&a[4]), area_at: AreaAt::Median, min_weight: env("MINW", 0) as u32,
                strategy, training }, &mut |_, _| ()).unwrap();
            let v = o.runs[0].busy_s;
            for r in &o.runs {
                println!("{:8} busy {:.1} (seek {:.1} rot {:.1} tr {:.1}) moving {:.1} moved {} MiB  saves {:.1}% net {:.1}%", r.policy, r.busy_s, r.seek_s, r.rotation_s, r.transfer_s, r.background_busy_s, r.moved_bytes >> 20, 100.0*(1.0-r.busy_s/v), 100.0*(1.0-(r.busy_s+r.background_busy_s)/v));
            }
        }
        "roll" => {
            let folds = env("FOLDS", 12) as u32;
            let base = System { name: "vanilla".into(), disk: disk.clone(), scheduler: Scheduler::Fcfs, spin_down: SpinDown::None, cache, read_ahead: Bytes(65536), cluster: Bytes(65536), learning: None };
            let mut systems = vec![base.clone()];
            for s in &a[4..] { for every in [1, 4] {
                systems.push(System { name: format!("{s} every {every}"), learning: Some(Learning { optimized: mib(s), area_at: AreaAt::Median, every, strategy, foresight: false }), ..base.clone() });
            } }
            let (_, r) = rolling(&source, &RollingOptions { open, device: None, replay, folds, ram: cache, training }, |_, _| systems.clone(), &mut |_, _| ()).unwrap();
            let sum = |laps: &[Lap], f: fn(&Lap) -> f64| laps[1..].iter().map(f).sum::<f64>();
            let v = sum(&r.laps[0], |l| l.busy_s);
            for (s, laps) in systems.iter().zip(&r.laps) {
                let (b, m) = (sum(laps, |l| l.busy_s), sum(laps, |l| l.background_busy_s));
                println!("{:16} busy {:.1} moving {:.1} moved {:.0} MiB saves {:.1}% net {:.1}% copyhits {:.0}", s.name, b, m, sum(laps, |l| l.moved_bytes as f64) / 1048576.0, 100.0*(1.0-b/v), 100.0*(1.0-(b+m)/v), sum(laps, |l| l.copy_hits as f64));
            }
        }
        _ => panic!(),
    }
}
