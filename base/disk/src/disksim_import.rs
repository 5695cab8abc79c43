//! Imports DiskSim's drive descriptions (`.diskspecs`, `.model`, `.seek`) as a [`DiskSpec`].
//!
//! The input is text; the caller reads the files that a description names. The meaning of the
//! parameters is in `benches/reproduce/runs/tables.md`. DiskSim's own defects are not reproduced.

use crate::device::Kind;
use crate::disksim_layout::{tree, zones};
use crate::disksim_syntax::{Block, SyntaxError, Value, parse};
use crate::seek_curve::SeekCurve;
use crate::spec::{
    ControllerSpec, DiskSpec, GeometrySpec, MechanicsSpec, PowerSpec, ReadAhead, SeekSpec, Source,
    SourceKind, WriteBack, WriteElsewhereSpec, ZeroLatency,
};
use crate::spec_check::RangeError;

/// A description that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum ImportError {
    #[error("{file}:{line}: {what}")]
    Text { file: String, line: usize, what: String },
    #[error("{file}:{line}: names the file '{wanted}', which cannot be read: {why}")]
    Missing { file: String, line: usize, wanted: String, why: String },
    #[error("{file}: {fault}")]
    Range { file: String, fault: RangeError },
}

/// What is read from a description.
pub(crate) type Imported<T> = Result<T, ImportError>;

fn fault(file: &str, line: usize, what: impl Into<String>) -> ImportError {
    ImportError::Text { file: file.to_owned(), line, what: what.into() }
}

type Open<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// A block, and the file of the block.
pub(crate) struct Page<'a> {
    pub(crate) file: &'a str,
    pub(crate) block: &'a Block,
}

impl Page<'_> {
    pub(crate) fn error(&self, line: usize, what: impl Into<String>) -> ImportError {
        fault(self.file, line, what)
    }

    /// A number, or `None` if the parameter is absent.
    pub(crate) fn number(&self, key: &str) -> Imported<Option<f64>> {
        match self.block.get(key) {
            None => Ok(None),
            Some((Value::Words(w), line)) => w
                .parse::<f64>()
                .ok()
                .filter(|v| v.is_finite())
                .map(Some)
                .ok_or_else(|| self.error(line, format!("{key}: '{w}' is not a number"))),
            Some((_, line)) => Err(self.error(line, format!("{key}: expected a number"))),
        }
    }

    pub(crate) fn need(&self, key: &str) -> Imported<f64> {
        self.number(key)?
            .ok_or_else(|| self.error(self.block.line, format!("no '{key}' in this block")))
    }

    /// A number multiplied by `scale`; 0 if the parameter is absent.
    fn scaled(&self, key: &str, scale: f64) -> Imported<f64> {
        Ok(self.or_zero(key)? * scale)
    }

    /// A number; 0 if the parameter is absent.
    pub(crate) fn or_zero(&self, key: &str) -> Imported<f64> {
        Ok(self.number(key)?.unwrap_or(0.0))
    }

    /// The text of another file that this page names.
    fn other(&self, line: usize, wanted: &str, open: Open<'_>) -> Imported<String> {
        let (file, wanted) = (self.file.to_owned(), wanted.to_owned());
        open(&wanted).map_err(|why| ImportError::Missing { file, line, wanted, why })
    }

    /// The line of a parameter, otherwise that of the block.
    pub(crate) fn line(&self, key: &str) -> usize {
        self.block.get(key).map_or(self.block.line, |e| e.1)
    }

    /// Whether a parameter is present and not 0.
    fn flag(&self, key: &str) -> Imported<bool> {
        Ok(self.or_zero(key)? != 0.0)
    }

    /// A whole number of the requested type.
    pub(crate) fn whole<T: TryFrom<u64>>(&self, key: &str) -> Imported<Option<T>> {
        let Some(v) = self.number(key)? else { return Ok(None) };
        let line = self.line(key);
        let fits = ((0.0..1e18).contains(&v) && v.fract() == 0.0).then_some(v as u64);
        fits.and_then(|v| T::try_from(v).ok()).map(Some).ok_or_else(|| {
            self.error(line, format!("{key}: {v} is not a whole number in the allowed range"))
        })
    }

    pub(crate) fn need_whole<T: TryFrom<u64>>(&self, key: &str) -> Imported<T> {
        self.whole(key)?
            .ok_or_else(|| self.error(self.block.line, format!("no '{key}' in this block")))
    }

    pub(crate) fn words(&self, key: &str) -> Option<(&str, usize)> {
        match self.block.get(key) {
            Some((Value::Words(w), line)) => Some((w, line)),
            _ => None,
        }
    }

    fn numbers(&self, key: &str) -> Imported<Vec<f64>> {
        let Some((value, line)) = self.block.get(key) else { return Ok(Vec::new()) };
        let Value::List(items) = value else {
            return Err(self.error(line, format!("{key}: expected a list")));
        };
        items
            .iter()
            .map(|item| match item {
                Value::Words(w) => w.parse().ok().filter(|v: &f64| v.is_finite()),
                _ => None,
            })
            .collect::<Option<Vec<f64>>>()
            .ok_or_else(|| self.error(line, format!("{key}: expected a list of numbers")))
    }

    pub(crate) fn counts(&self, key: &str) -> Imported<Vec<u64>> {
        let line = self.line(key);
        self.numbers(key)?
            .into_iter()
            .map(|v| ((0.0..1e18).contains(&v) && v.fract() == 0.0).then_some(v as u64))
            .collect::<Option<Vec<u64>>>()
            .ok_or_else(|| self.error(line, format!("{key}: expected a list of counts")))
    }
}

/// The last part of a path.
fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn blocks(file: &str, text: &str) -> Imported<Vec<Value>> {
    parse(text).map_err(|SyntaxError { line, what }| fault(file, line, what))
}

/// The parameter `key` as a block. If its value is `source FILE`, the block is read from that file.
fn child(page: &Page<'_>, key: &str, open: Open<'_>) -> Imported<(String, Block)> {
    match page.block.get(key) {
        Some((Value::Block(b), _)) => Ok((page.file.to_owned(), b.clone())),
        Some((Value::Words(w), line)) => {
            let Some(wanted) = w.strip_prefix("source ") else {
                return Err(page.error(line, format!("{key}: expected a block or 'source FILE'")));
            };
            let text = page.other(line, wanted, open)?;
            let first = blocks(wanted, &text)?.into_iter().find_map(|v| match v {
                Value::Block(b) => Some(b),
                _ => None,
            });
            let block = first.ok_or_else(|| fault(wanted, 1, "holds no block"))?;
            Ok((wanted.to_owned(), block))
        }
        Some((Value::List(_), line)) => Err(page.error(line, format!("{key}: expected a block"))),
        None => Err(page.error(page.block.line, format!("no '{key}' in this block"))),
    }
}

fn disk(value: &Value) -> Option<&Block> {
    match value {
        Value::Block(b) if b.kind == "disksim_disk" || b.kind == "dm_disk" => Some(b),
        _ => None,
    }
}

/// The first disk in the files that `source` names at the top of a file, and the file that contains
/// it.
fn drive_of(file: &str, all: &[Value], open: Open<'_>) -> Imported<(String, Block)> {
    let mut failed = None;
    for value in all {
        let Value::Words(words) = value else { continue };
        let Some(wanted) = words.strip_prefix("source ") else { continue };
        let text = match open(wanted) {
            Ok(text) => text,
            Err(why) => {
                failed = Some((wanted.to_owned(), why));
                continue;
            }
        };
        if let Some(block) = blocks(wanted, &text)?.iter().find_map(disk) {
            return Ok((wanted.to_owned(), block.clone()));
        }
    }
    let what = match failed {
        Some((wanted, why)) => format!("names the file '{wanted}', which cannot be read: {why}"),
        None => "no 'disksim_disk' or 'dm_disk' block".to_owned(),
    };
    Err(fault(file, 1, what))
}

/// Milliseconds per sector over the slowest bus, for a read and for a write. `None` if no bus takes
/// time.
fn bus_ms(file: &str, all: &[Value]) -> Imported<Option<[f64; 2]>> {
    let mut slowest = [0.0_f64; 2];
    for value in all {
        let Value::Block(block) = value else { continue };
        if block.kind == "disksim_bus" {
            let page = Page { file, block };
            for (slow, what) in slowest.iter_mut().zip(["Read", "Write"]) {
                *slow = slow.max(page.or_zero(&format!("{what} block transfer time"))?);
            }
        }
    }
    Ok((slowest[0] > 0.0 && slowest[1] > 0.0).then_some(slowest))
}

/// The same from the `.parv` file beside a description, if that file can be read.
fn beside_bus_ms(file: &str, open: Open<'_>) -> Option<[f64; 2]> {
    let stem = base(file).rsplit_once('.').map_or(base(file), |(stem, _)| stem);
    let text = open(&format!("{stem}.parv")).ok()?;
    bus_ms(file, &blocks(file, &text).ok()?).ok()?
}

/// Imports the first disk of a DiskSim file: `disksim_disk` (`.diskspecs`), `dm_disk` (`.model`),
/// or the disk that a `.parv` contains or names. `open` returns the text of a named file, or the
/// reason why it cannot be read.
pub fn import_disksim(
    file: &str,
    text: &str,
    open: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<DiskSpec, ImportError> {
    let all = blocks(file, text)?;
    let (named, sourced);
    let (file, block) = match all.iter().find_map(disk) {
        Some(block) => (file, block),
        // A `.parv` describes the host; it names the drive with `source`.
        None => {
            (named, sourced) = drive_of(file, &all, open)?;
            (named.as_str(), &sourced)
        }
    };
    let host = match bus_ms(file, &all)? {
        None => beside_bus_ms(file, open),
        known => known,
    };
    let top = Page { file, block };
    let (model_file, model_block, controller) = if block.kind == "disksim_disk" {
        let (f, b) = child(&top, "Model", open)?;
        (f, b, Some(&top))
    } else {
        (file.to_owned(), block.clone(), None)
    };
    let model = Page { file: &model_file, block: &model_block };
    let (f, b) = child(&model, "Mechanical Model", open)?;
    let mech = Page { file: &f, block: &b };
    let seek = seek(&mech, model.need_whole("Number of cylinders")?, open)?;
    let mechanics = MechanicsSpec {
        rpm: mech.need("Rotation speed (in rpms)")?,
        head_switch_ms: mech.need("Head switch time")?,
        write_settle_ms: mech.or_zero("Add. write settling delay")?,
        zero_latency: controller.map_or(Ok(ZeroLatency::None), zero_latency)?,
    };
    let (geometry, data) = geometry(&model, open)?;
    let settle_ms = SeekCurve::new(&seek, 2).time(1, 1).as_millis_f64();
    let controller = controller.map(|page| controller_of(page, settle_ms, host)).transpose()?;
    let name: String = base(file).split('.').next().unwrap_or("disk").to_owned();
    let spec = DiskSpec {
        kind: Kind::Disk,
        shingled: None,
        name: if name.is_empty() { "disk".to_owned() } else { name.replace(' ', "-") },
        title: block.name.clone(),
        capacity_sectors: data,
        mechanics,
        seek,
        geometry,
        power: PowerSpec::default(),
        sources: sources(file, controller.as_ref()),
        controller,
    };
    spec.validate().map_err(|fault| ImportError::Range { file: model_file, fault })?;
    Ok(spec)
}

fn geometry(model: &Page<'_>, open: Open<'_>) -> Imported<(GeometrySpec, u64)> {
    let heads = model.need_whole("Number of data surfaces")?;
    let (f, b) = child(model, "Layout Model", open)?;
    let layout = Page { file: &f, block: &b };
    match layout.block.kind.as_str() {
        "dm_layout_g1" => zones(&layout, heads),
        "dm_layout_g4" => tree(&layout, heads, model.need_whole("Block count")?),
        other => {
            let what =
                format!("layout '{other}' is not known; expected dm_layout_g1 or dm_layout_g4");
            Err(layout.error(layout.block.line, what))
        }
    }
}

fn sources(file: &str, controller: Option<&ControllerSpec>) -> Vec<Source> {
    let fields = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    let mut sources = vec![
        Source {
            fields: fields(&["mechanics", "seek", "geometry", "capacity_sectors"]),
            kind: SourceKind::Measured,
            from: format!("imported from DiskSim's {}", base(file)),
        },
        Source {
            fields: fields(&["power"]),
            kind: SourceKind::Derived,
            from: "DiskSim's files give no power; zero means not known".to_owned(),
        },
    ];
    if controller.is_some() {
        sources[0].fields.push("controller".to_owned());
    }
    sources
}

/// DiskSim's "immediate" buffering: the drive reads or writes the first sector that passes the
/// head.
fn zero_latency(disk: &Page<'_>) -> Imported<ZeroLatency> {
    Ok(match (disk.flag("Immediate buffer read")?, disk.flag("Immediate buffer write")?) {
        (false, _) => ZeroLatency::None,
        (true, false) => ZeroLatency::Reads,
        (true, true) => ZeroLatency::All,
    })
}

/// Milliseconds per sector over the bus, for a read and for a write. Used for drives whose own file
/// gives none and that come without a `.parv`, the place of this value in DiskSim's distribution.
/// Other drives of that time get 5 MB/s, the synchronous rate of SCSI.
fn host_bus_ms(drive: &str) -> [f64; 2] {
    match drive {
        "HP_C3323A_validate" => [0.145_45; 2],
        "HP_C2490A_validate" => [0.148_41; 2],
        "HP_C2247A_validate" => [0.170_10, 0.186_86],
        "DEC_RZ26_validate" => [0.070_69; 2],
        _ => [0.1024; 2],
    }
}

/// Overheads, interface and buffer of a `disksim_disk`.
fn controller_of(
    disk: &Page<'_>,
    settle_ms: f64,
    host: Option<[f64; 2]>,
) -> Imported<ControllerSpec> {
    let scale = disk.number("Time scale for overheads")?.unwrap_or(1.0);
    let always = disk.or_zero("Per-request overhead time")?;
    let ms = |key: &str| disk.scaled(key, scale);
    let pair = |what: &str, more: f64| overheads(disk, what, scale, always * scale, more);
    let preparation = ms("Data preparation overhead")?;
    let first_reselect = ms("First reselect overhead")?;
    // A write's first movement takes at least this time. The time scale applies to overheads only.
    let write_seek_ms = disk.or_zero("Minimum seek delay")?;
    let write_end_ms = ms("Write completion overhead")?;
    let write_elsewhere = write_elsewhere(disk, scale, always)?;
    let flag = |key: &str| disk.flag(key);
    let buffered = flag("Enable caching in buffer")?;
    let segment_sectors: u32 = disk.whole("Segment size (in blks)")?.unwrap_or(0).max(1);
    let segments: u32 = disk.whole("Number of buffer segments")?.unwrap_or(0);
    let reads_on_arrival = flag("Immediate buffer read")?;
    let over_requested = flag("Read-ahead over requested")?;
    Ok(ControllerSpec {
        bus_sector_ms: match disk.or_zero("Bulk sector transfer time")? {
            0.0 => host.unwrap_or_else(|| host_bus_ms(&disk.block.name)),
            ms => [ms; 2],
        },
        read_hit_ms: pair("Read hit", preparation)?,
        read_miss_ms: pair("Read miss", 0.0)?,
        write_hit_ms: pair("Write hit", preparation)?,
        write_miss_ms: pair("Write miss", 0.0)?,
        // A drive with a stated minimum delay has no other settle time. A drive that reads on
        // arrival does not wait to settle.
        settle_ms: if write_seek_ms > 0.0 || reads_on_arrival { 0.0 } else { settle_ms },
        write_data_ms: preparation,
        write_seek_ms,
        // DiskSim uses these numbers for every drive with an extra disconnect.
        write_gather_sectors: if write_elsewhere.is_some() { [10, 15] } else { [0; 2] },
        write_elsewhere,
        reconnect_ms: preparation + first_reselect,
        read_end_ms: ms("Read completion overhead")?,
        write_end_ms: write_end_ms + first_reselect,
        read_watermark: disk.or_zero("High (read) water mark")?,
        segments: if buffered { segments } else { 0 },
        segment_sectors,
        own_write_segment: flag("Use separate write segment")?,
        read_ahead: read_ahead(disk, over_requested)?,
        read_ahead_sectors: match disk.whole("Maximum read-ahead (blks)")? {
            None | Some(0) => segment_sectors,
            Some(most) => most,
        },
        read_ahead_over_requested: over_requested,
        read_ahead_on_hit: flag("Read-ahead on idle hit")?,
        read_ahead_stops_in_sector: flag("Stop prefetch in sector")?,
        write_back: write_back(disk)?,
        write_segments: disk.whole("Maximum number of write segments")?.unwrap_or(1).max(1),
        reads_hit_writes: flag("Allow read hits on write data")?,
    })
}

/// The overheads of one kind, after a read and after a write, with `always` and `more` added.
fn overheads(
    disk: &Page<'_>,
    what: &str,
    scale: f64,
    always: f64,
    more: f64,
) -> Imported<[f64; 2]> {
    let of = |after: &str| disk.scaled(&format!("{what} over. after {after}"), scale);
    Ok([of("read")? + always + more, of("write")? + always + more])
}

/// The values for a write elsewhere after a write, on a drive with an extra disconnect.
fn write_elsewhere(
    disk: &Page<'_>,
    scale: f64,
    always: f64,
) -> Imported<Option<WriteElsewhereSpec>> {
    if !disk.flag("Extra write disconnect")? {
        return Ok(None);
    }
    let ms = |key: &str| disk.scaled(key, scale);
    // The drive releases the bus before it takes the data, and once more after it.
    let delta = ms("Extradisc seek delta")?;
    let data_ms = ms("Extradisc disconnect overhead")?
        + ms("Extradisc inter-disconnect delay")?
        + ms("First reselect overhead")?
        + ms("Data preparation overhead")?;
    Ok(Some(WriteElsewhereSpec {
        miss_ms: ms("Extradisc command overhead")? + always * scale + delta,
        data_ms: (data_ms - delta).max(0.0),
        end_ms: ms("Write completion overhead")? + ms("Other reselect overhead")?,
    }))
}

/// The extent of read-ahead; `over_requested` if it may overwrite requested sectors.
fn read_ahead(disk: &Page<'_>, over_requested: bool) -> Imported<ReadAhead> {
    let key = "Buffer continuous read";
    Ok(match disk.whole(key)?.unwrap_or(0u32) {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 => ReadAhead::Segment,
        // A drive that drops requested sectors does not stop at the end of a track.
        4 if over_requested => ReadAhead::Segment,
        4 => ReadAhead::TrackOrNext,
        n => return Err(unknown_number(disk, key, n, "0 to 4")),
    })
}

fn write_back(disk: &Page<'_>) -> Imported<WriteBack> {
    let key = "Fast write level";
    Ok(match disk.whole(key)?.unwrap_or(0u32) {
        0 => WriteBack::None,
        1 => WriteBack::OneStream,
        2 => WriteBack::All,
        n => return Err(unknown_number(disk, key, n, "0 to 2")),
    })
}

fn unknown_number(disk: &Page<'_>, key: &str, found: u32, expected: &str) -> ImportError {
    disk.error(disk.line(key), format!("{key}: {found} is not known; expected {expected}"))
}

fn seek(mech: &Page<'_>, cylinders: u32, open: Open<'_>) -> Imported<SeekSpec> {
    let (kind, line) = mech
        .words("Seek type")
        .ok_or_else(|| mech.error(mech.block.line, "no 'Seek type' in this block"))?;
    let single = || mech.need("Single cylinder seek time");
    Ok(match kind {
        "extracted" => {
            let (name, line) = mech
                .words("Full seek curve")
                .ok_or_else(|| mech.error(mech.block.line, "no 'Full seek curve' file named"))?;
            let name = name.strip_prefix("source ").unwrap_or(name);
            let text = mech.other(line, name, open)?;
            SeekSpec::Table { points: seek_table(name, &text)? }
        }
        "linear" => {
            let full = mech.need("Full strobe seek time")?;
            SeekSpec::Table { points: vec![(1, single()?), ((cylinders.max(3)) - 1, full)] }
        }
        "constant" => SeekSpec::Table { points: vec![(1, single()?), (2, single()?)] },
        "curve" => SeekSpec::ThreePoint {
            single_ms: single()?,
            average_ms: mech.need("Average seek time")?,
            full_ms: mech.need("Full strobe seek time")?,
        },
        "hpl" | "hplplus10" => {
            let v = mech.numbers("HPL seek equation values")?;
            let [threshold, a, b, c, d, one] = v[..] else {
                return Err(mech.error(line, "HPL seek equation values: expected 6 numbers"));
            };
            let mut first_ms = Vec::new();
            if kind == "hplplus10" {
                first_ms = mech.numbers("First ten seek times")?;
            } else if one >= 0.0 {
                first_ms.push(one);
            }
            SeekSpec::RootLinear {
                first_ms,
                threshold: threshold.clamp(0.0, f64::from(u32::MAX)) as u32,
                short_constant_ms: a,
                short_root_ms: b,
                long_constant_ms: c,
                long_linear_ms: d,
            }
        }
        other => {
            let known = "extracted, hplplus10, hpl, curve, linear, constant";
            let what = format!("Seek type '{other}' is not known; expected one of {known}");
            return Err(mech.error(line, what));
        }
    })
}

/// Parses a `.seek` file: one line with the number of points, then one line `distance,
/// milliseconds` per point.
fn seek_table(file: &str, text: &str) -> Imported<Vec<(u32, f64)>> {
    let mut points = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() || line.contains(':') {
            continue;
        }
        let mut parts = line.split([',', ' ', '\t']).filter(|p| !p.is_empty());
        let point = (|| {
            let d: u32 = parts.next()?.parse().ok()?;
            let ms: f64 = parts.next()?.parse().ok()?;
            Some((d, ms))
        })();
        match point {
            Some((0, _)) => {}
            Some(p) => points.push(p),
            None => {
                return Err(fault(
                    file,
                    i + 1,
                    format!("'{line}' is not 'distance, milliseconds'"),
                ));
            }
        }
    }
    Ok(points)
}
