//! `seekless simulate`: policies compared on a trace and a modelled disk.

use std::path::PathBuf;

use clap::ValueEnum;
use indicatif::ProgressBar;
use seekless_block::Bytes;
use seekless_compare::{AreaAt, Options, Outcome, Policy, Stage};
use seekless_trace::{Progress, Source};

use crate::simulate_report;
use seekless_cli::args::{StudyArgs, share, size};
use seekless_cli::output;

/// Compare layouts on a trace and a modelled disk: learn from its first part, measure the rest
///
/// Every policy gets the same RAM, the same read-ahead and the same scheduler. `vanilla` leaves all data
/// at home; `borg` copies what the first part of the trace used together into an optimized area; `judged`
/// goes on learning, moves what has proved itself, and answers for every day; `oracle` is the same planner trained on the measured part itself: what perfect foresight would gain; `fs2` puts replicas
/// of what is read together with the hottest region into free space beside it, `fs2-static` of all that was read, `fs2-whole` of
/// whole sequences. Moving the
/// data is counted as background time and energy. All times and joules are modelled.
///
/// By temperature alone (docs/believing/clustering.md): `organ-pipe`, `buckets`, `lazy`, `cylinder-shuffle` and `block-shuffle` copy what
/// was read most into the area, hottest in its middle; `outer-zone` hottest first, into an area where the disk's own
/// curve makes it cheapest. `cylinders-in-place` and `blocks-in-place` copy nothing: data changes places over the whole disk,
/// as in the literature.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless simulate week.blkparse.gz --disk wd800jb
  seekless simulate week.blkparse.gz --disk wd800jb --policy vanilla,fs2 --free 40%
  seekless simulate msr:prxy_0.csv --disk nearline --policy vanilla,borg --open-loop --json out.json
  blkparse -i sda | seekless simulate blkparse:- --disk wd800jb --report report.html")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    trace: String,
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long)]
    disk: String,
    /// Policies to compare, in order
    #[arg(long, value_delimiter = ',', default_value = "vanilla,borg,oracle")]
    policy: Vec<Policy>,
    /// Share to learn from: of the days, where the trace counts days, else of the requests
    #[arg(long, value_parser = share, default_value = "50%")]
    train: f64,
    /// Size of the optimized area; with fs2, the most that replicas take
    #[arg(long, value_parser = size, default_value = "256MiB")]
    optimized: Bytes,
    /// With fs2, the share of the device that is free, where the trace discards nothing: of what it never touches
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "40%")]
    free: f64,
    /// Chooses which of that is free
    #[arg(long, value_name = "N", default_value_t = 1)]
    free_seed: u64,
    /// With fs2, how many replicas a page may have; a read takes the nearest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    degree: u32,
    /// Share of the optimized area that takes in writes (write-back, as BORG does); 0 = write-through
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0")]
    write_buffer: f64,
    /// Where the optimized area lies: amid the trace's addresses, at the median of what is learned from,
    /// or behind them all
    #[arg(long, value_enum, default_value = "median")]
    optimized_at: Place,
    /// An extent is copied only if it was read before or after what is copied this often; 0 = ever, and
    /// not yet forgotten
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_weight: u32,
    /// What is learned from: each process by itself, as the trace names them and as `serve --observe` sees them, or
    /// all as one stream, as `serve` does otherwise
    #[arg(long, value_enum, default_value = "recorded")]
    streams: Streams,
    #[command(flatten)]
    study: StudyArgs,
    /// Write the head's path under each policy as an SVG picture
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    Median,
    End,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Streams {
    Recorded,
    One,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let source = Source::new(&args.trace);
    let spec = seekless_cli::disk::named(&args.disk)?;
    let rolling = args.study.rolling(2);
    let options = Options {
        open: rolling.open,
        device: rolling.device,
        host: args.study.host(spec.clone()),
        policies: args.policy.clone(),
        replay: rolling.replay,
        train: args.train,
        optimized: args.optimized,
        free: args.free,
        free_seed: args.free_seed,
        degree: args.degree,
        write_buffer: (args.write_buffer * 100.0).ceil() as u8,
        area_at: match args.optimized_at {
            Place::Median => AreaAt::Median,
            Place::End => AreaAt::End,
        },
        one_stream: matches!(args.streams, Streams::One),
        min_weight: args.min_weight,
        learner: rolling.learner,
    };
    let bar = output::bar();
    let mut outcome =
        seekless_compare::simulate(&source, &options, &mut |stage, at| show(&bar, stage, at))?;
    bar.finish_and_clear();
    outcome.trace.path.clone_from(&args.trace);
    for note in &outcome.notes {
        output::say(&format!("note: {note}"));
    }
    if let Some(path) = &args.picture {
        output::write(path, &simulate_report::head_figure(&outcome, &spec).svg())?;
    }
    let report = |command: &str| simulate_report::report(&outcome, &spec, command);
    if args.study.out.write(&outcome, report)? { print(&outcome) } else { Ok(()) }
}

fn print(outcome: &Outcome) -> anyhow::Result<()> {
    let table = simulate_report::table(outcome, true);
    output::print(&table.terminal(output::width(), output::colour()))?;
    let energy = simulate_report::energy_table(outcome);
    output::print(&energy.terminal(output::width(), output::colour()))?;
    if let Some(days) = simulate_report::days_table(outcome) {
        output::print(&days.terminal(output::width(), output::colour()))?;
    }
    output::print(&simulate_report::finding(outcome))
}

fn show(bar: &ProgressBar, stage: Stage, at: Progress) {
    let message = match stage {
        Stage::Scan => "reading".to_owned(),
        Stage::Learn => "learning".to_owned(),
        Stage::Run(policy) => format!("simulating {}", policy.name()),
    };
    bar.set_message(message);
    bar.set_length(at.total.max(1));
    bar.set_position(at.read);
}
