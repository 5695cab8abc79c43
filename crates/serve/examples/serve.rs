//! Serves a file over a unix socket until its standard input ends, for measurements: `serve FILE SOCKET
//! [learn]`. With `learn` every request is observed, and every other 64 KiB of the device has a copy, as
//! many as such a map can hold, before it says ready. Says at the end how many reads copies answered, and
//! what the learner missed.
#![allow(clippy::print_stdout, reason = "a program")]

use std::time::Duration;

use seekless_block::{Bytes, Extent, Lba, Op, Request, Sectors};
use seekless_engine::Config;
use seekless_layout::{
    AccessGraph, Copy, Pages, Plan, PlanConfig, Planning, Reach, Strategy, plan,
};
use seekless_serve::{Address, Backing, Builder, Learner};

/// BORG's observer and planner, as the server ships it.
struct Borg(Option<AccessGraph>, PlanConfig);

impl Learner for Borg {
    fn begin(&mut self, config: &Config, _: Plan) -> Result<(), String> {
        let pages = Pages::new(config.grid, config.capacity);
        self.0 = Some(AccessGraph::new(pages, config.cache_bytes, 1 << 20));
        Ok(())
    }

    fn observe(&mut self, request: &Request) {
        self.0.iter_mut().for_each(|g| g.observe(request));
    }

    fn plan(&mut self) -> Plan {
        self.0.as_ref().map_or_else(Plan::default, |g| plan(g, &self.1))
    }
}

/// Copies of every other 64 KiB of the device: as many entries as such a map can have.
fn full_map(size: Bytes) -> Plan {
    const RUN: u64 = 128;
    let runs = size.0 / 512 / RUN;
    let copies = (0..runs / 2)
        .map(|i| Copy { home: Extent::new(i * 2 * RUN, RUN), place: Lba(i * RUN) })
        .collect();
    Plan { copies }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, socket, rest @ ..] = args.as_slice() else {
        return Err("usage: serve FILE SOCKET [learn]".into());
    };
    let size = std::fs::metadata(file)?.len();
    let mut builder = Builder::new(Backing::Path(file.into())).listen(Address::Unix(socket.into()));
    let learn = rest.first().is_some_and(|a| a == "learn");
    if learn {
        // Half the device, and its metadata.
        let area = Sectors(size / 1024 * 5 / 4);
        let config = PlanConfig {
            area,
            min_weight: 1,
            strategy: Strategy::default(),
            planning: Planning::Anew,
            reach: Reach::new(Bytes(0), Bytes(0)),
        };
        builder = builder.area(area.bytes()).learner(Box::new(Borg(None, config)), None);
    }
    let server = builder.spawn()?;
    if learn {
        let plan = full_map(server.size());
        let sectors = plan.sectors().0;
        server.install(plan)?;
        server.wait_settled(Duration::from_secs(600))?;
        let copied = server.stats()?.copied_sectors;
        if copied != sectors {
            return Err(format!("only {copied} of {sectors} sectors were copied").into());
        }
        // A read through the server brings its part of the area into the page cache.
        let way_in = server.injector();
        for at in (0..size / 512).step_by(128) {
            let room = vec![0; 65_536];
            way_in.call(Op::Read, Extent::new(at, 128), seekless_block::Flags::NONE, room)?;
        }
    }
    println!("ready, {} sectors copied", server.stats()?.copied_sectors);
    // Nothing comes in; the end of it is the signal.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let stats = server.stop()?;
    let engine = stats.engine;
    println!(
        "{} requests, {} reads of copies, {} unobserved",
        engine.requests, engine.copy_reads, stats.unobserved
    );
    Ok(())
}
