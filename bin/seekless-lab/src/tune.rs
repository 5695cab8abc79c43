//! `seekless-lab tune`: the interval, size and write buffer of the optimized area that fit a trace,
//! and the effect of each.

use seekless_compare::{Cutting, Panel, Parameter, RollingStage, TuneOptions, Tuned, Tuning, tune};
use seekless_learn::Policy;
use seekless_report::{
    Axis, Basis, Figure, Lines, Points, Provenance, Report, Section, Table, Tile, Unit,
};
use seekless_trace::{Progress, Source};

use seekless_cli::args::{StudyArgs, number};
use seekless_cli::output;

/// Find the interval, the size and the write buffer of the learned layout that fit a trace, and
/// show the effect of each
///
/// Divides the trace into folds: days, if the trace counts days. Simulates a learned layout over
/// the folds, with a new plan from earlier folds at each interval. Varies one parameter after the
/// other: the interval, the size, and the share of the area for writes. Repeats this until no
/// parameter changes. The earlier folds decide, moving counted. The last folds check the decision.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  seekless-lab tune trace.parquet --disk exos-x20
  seekless-lab tune P3.lis.zst --disk wd800jb --cache 64MiB --json -
  seekless-lab tune trace.blktrace.0 --event D --disk wd800jb --report tune.html
  seekless-lab tune synth:borg-svn --disk wd360gd --open-loop --gather 1s --figures tune

Exit code: 0 for every result; 2 for bad input.")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input
    trace: String,
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long)]
    disk: String,
    /// Maximum number of folds of the trace
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = number::<u32>("folds", 2..=64, 24))]
    folds: u32,
    /// The policy that is tuned, as NAME[:key=value...]; `seekless policies` lists them
    #[arg(long, value_name = "POLICY", default_value = "borg")]
    policy: Policy,
    #[command(flatten)]
    study: StudyArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.study.out.ensure_apart(&args.trace, &[args.disk.as_str()], &[])?;
    let options = TuneOptions {
        rolling: args.study.rolling(Cutting::Folds(args.folds)),
        host: args.study.host(seekless_cli::disk::named(&args.disk)?),
        policy: args.policy,
    };
    let mut tuned = output::with_bar(|bar| {
        tune(&Source::new(&args.trace), &options, &mut |parameter, stage, at| {
            show(bar, parameter, stage, at);
        })
    })?;
    output::notes(&tuned.notes);
    tuned.trace.path.clone_from(&args.trace);
    if !args.study.out.write(&tuned, |command| report(&tuned, command))? {
        return Ok(());
    }
    for panel in shown(&tuned) {
        output::tables([&table(&tuned, panel)])?;
    }
    output::print(&finding(&tuned))
}

/// The last curve of each parameter.
fn shown(tuned: &Tuned) -> impl Iterator<Item = &Panel> {
    Parameter::ALL.into_iter().filter_map(|p| tuned.panel(p))
}

/// An interval in days, if folds are days, otherwise in folds.
fn interval(tuned: &Tuned, folds: u32) -> String {
    let days: u64 = tuned.fold_days.iter().sum();
    if days == 0 {
        return format!("{folds} of {} parts", tuned.fold_requests.len());
    }
    let days = f64::from(folds) * days as f64 / tuned.fold_days.len() as f64;
    format!("{days:.1} days with requests")
}

fn size(t: &Tuning) -> String {
    Unit::bytes(t.setting.optimized_bytes)
}

fn write_buffer(t: &Tuning) -> String {
    match t.setting.write_buffer_percent {
        0 => "none: write-through".to_owned(),
        percent => format!("{percent} % of the area"),
    }
}

fn percent(share: f64) -> String {
    Unit::Share.format(share, 2)
}

fn table(tuned: &Tuned, panel: &Panel) -> Table {
    let fixed = &panel.points[panel.best];
    let every = interval(tuned, fixed.setting.interval_folds);
    let (varied, title) = match panel.parameter {
        Parameter::Interval => ("new plan after", format!("Interval, with {}", size(fixed))),
        Parameter::Size => ("optimized area", format!("Size, new plan after {every}")),
        Parameter::WriteBuffer => {
            let area = size(fixed);
            ("write buffer", format!("Write buffer, {area}, new plan after {every}"))
        }
    };
    let title = format!("{title}: {} on {}, modelled", tuned.trace.path, tuned.disk);
    let name = |t: &Tuning| match panel.parameter {
        Parameter::Interval => interval(tuned, t.setting.interval_folds),
        Parameter::Size => size(t),
        Parameter::WriteBuffer => write_buffer(t),
    };
    let table = Table::of(title, panel.points.iter().enumerate())
        .text(varied, |(_, t)| name(t))
        .number("saves", Unit::Share, |(_, t)| t.saves_busy.share)
        .number("moving not counted", Unit::Share, |(_, t)| t.saves_foreground)
        .number("left out", Unit::Share, |(_, t)| t.held_out_saves_busy)
        .number("moving", Unit::Seconds, |(_, t)| t.total.background_busy_s)
        .text("", |(i, _)| if i == panel.best { "best" } else { "" });
    table.done().note(
        "saves: disk time against no layout, over the folds that choose; moving not counted is the measure of BORG's Figure 12.",
    )
}

fn finding(tuned: &Tuned) -> String {
    let t = &tuned.chosen;
    let every = interval(tuned, t.setting.interval_folds);
    let best = format!(
        "an area of {}, new plan after {every}, {}, saves {} of the disk's time, moving counted",
        size(t),
        match t.setting.write_buffer_percent {
            0 => "written through".to_owned(),
            share => format!("{share} % of it a write buffer"),
        },
        percent(t.saves_busy.share)
    );
    let text = if t.saves_busy.share > 0.0 {
        format!("Best of {} settings tried: {best}", tuned.settings_tried)
    } else {
        format!(
            "No setting saves anything. The smallest loss of {} tried: {best}",
            tuned.settings_tried
        )
    };
    if tuned.held_out_folds == 0 {
        return format!("{text}. The trace is too short to check this on folds left out.");
    }
    let held_out = percent(t.held_out_saves_busy);
    format!(
        "{text}; on the last {} folds, which the choice did not use, {held_out}.",
        tuned.held_out_folds
    )
}

/// A parameter varied, the others fixed.
fn section(tuned: &Tuned, panel: &Panel) -> Section {
    let (name, axis) = match panel.parameter {
        Parameter::Interval => ("Interval", Axis::new("folds from plan to plan", Unit::Count)),
        Parameter::Size => ("Size", Axis::new("optimized area", Unit::Bytes)),
        Parameter::WriteBuffer => {
            ("Write buffer", Axis::new("share of the area for writes", Unit::Share))
        }
    };
    let x = |t: &Tuning| match panel.parameter {
        Parameter::Interval => f64::from(t.setting.interval_folds),
        Parameter::Size => t.setting.optimized_bytes as f64,
        Parameter::WriteBuffer => f64::from(t.setting.write_buffer_percent) / 100.0,
    };
    let line = |name: &str, y: fn(&Tuning) -> f64| {
        Points::new(name, panel.points.iter().map(|t| (x(t), y(t))).collect::<Vec<_>>())
    };
    let lines = Lines {
        x: if panel.parameter == Parameter::WriteBuffer { axis } else { axis.log() },
        y: Axis::new("disk time saved", Unit::Share),
        series: vec![
            line("moving counted", |t| t.saves_busy.share),
            line("moving not counted", |t| t.saves_foreground),
            line("folds left out", |t| t.held_out_saves_busy),
        ],
    };
    let figure = Figure::new(format!("{name}, and what is saved"), Basis::Modelled, lines)
        .caption("As in BORG's Figure 12: one parameter varied, the others as they were.");
    Section::new(name).table(table(tuned, panel)).figure(figure)
}

fn report(tuned: &Tuned, command: &str) -> Report {
    let t = &tuned.chosen;
    let title = format!("Tuning for {} on {}", tuned.trace.path, tuned.disk);
    let every = interval(tuned, t.setting.interval_folds);
    let mut report = Report::new(title, finding(tuned))
        .tile(Tile::new("Interval", every, "from one plan to the next"))
        .tile(Tile::new("Size", size(t), "of the optimized area"))
        .tile(Tile::new("Write buffer", write_buffer(t), "the share of the area for writes"))
        .tile(Tile::new(
            "Saves",
            percent(t.saves_busy.share),
            "of the disk's time, moving counted",
        ));
    for panel in shown(tuned) {
        report = report.section(section(tuned, panel));
    }
    let (folds, held_out) = (tuned.fold_requests.len(), tuned.held_out_folds);
    let origin = Provenance::of(command)
        .fact("disk", &tuned.disk)
        .fact("replay", tuned.replay)
        .fact("requests", Unit::count(tuned.trace.requests))
        .fact("folds", format_args!("{folds}, {held_out} left out of the choice"))
        .fact("settings simulated", tuned.settings_tried)
        .measured("the requests of the trace")
        .modelled("every time");
    report.provenance(origin)
}

fn show(bar: &dyn Fn(&str, u64, u64), parameter: Parameter, stage: RollingStage, at: Progress) {
    let what = match parameter {
        Parameter::Interval => "interval",
        Parameter::Size => "size",
        Parameter::WriteBuffer => "write buffer",
    };
    bar(&format!("{what}: {}", stage.text()), at.read, at.total);
}
