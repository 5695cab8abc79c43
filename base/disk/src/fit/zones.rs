//! Bandwidth: derives zones from sequential runs, and track numbers from addresses.

use super::Sample;

/// Minimum number of reads in a run.
const RUN_MIN: usize = 8;
/// A request that takes longer than usual by this fraction has crossed to another track.
const CROSSED: f64 = 0.3;
/// A track change that takes this many times the usual time was disturbed.
const DISTURBED: f64 = 2.5;
/// Neighbouring positions belong to one zone if their times per sector differ by less than this
/// fraction.
const SAME: f64 = 0.012;

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Sector in the middle of the run.
    middle: f64,
    /// Milliseconds per sector within a track.
    sector_ms: f64,
    /// Whether requests separate transfer from track changes.
    clean: bool,
    /// Extra time of each request that crossed to another track.
    extra_ms: Vec<f64>,
    /// Milliseconds per sector over the whole run.
    mean_ms: f64,
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let i = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(i).copied().unwrap_or(0.0)
}

pub(super) fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    quantile(&x, 0.5)
}

/// The runs of reads in which each read starts at the end of the read before it. On a disk without
/// read-ahead the next sector has passed before the next request arrives. If the revolution time is
/// known, whole revolutions are subtracted.
pub(super) fn runs(samples: &[Sample], revolution_ms: Option<f64>) -> Vec<Run> {
    let follows = |a: &Sample, b: &Sample| {
        a.op == b.op && a.extent.end() == b.extent.start && a.extent.len == b.extent.len
    };
    let mut runs: Vec<Run> = samples
        .chunk_by(follows)
        // The arm moves to the first read; it is not part of the stream.
        .filter(|c| {
            c.len() > RUN_MIN && c[0].op == seekless_block::Op::Read && c[0].extent.len.0 > 0
        })
        .map(|c| run(&c[1..], revolution_ms))
        .filter(|r| r.sector_ms > 0.0)
        .collect();
    runs.sort_by(|a, b| a.middle.total_cmp(&b.middle));
    runs
}

fn run(reads: &[Sample], revolution_ms: Option<f64>) -> Run {
    let len = reads[0].extent.len.0 as f64;
    let times = reads.iter().map(|s| {
        let ms = s.service.as_millis_f64();
        revolution_ms.map_or(ms, |turn| ms % turn)
    });
    let times: Vec<f64> = times.collect();
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    // Requests within a track take the least time. Requests that change tracks take one switch
    // more.
    let low = quantile(&sorted, 0.25);
    let plain: Vec<f64> =
        times.iter().copied().filter(|t| (t - low).abs() < CROSSED * low).collect();
    let base = median(plain.clone());
    let extra: Vec<f64> = times.iter().map(|t| t - base).filter(|e| *e > CROSSED * low).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let clean = plain.len() * 3 >= times.len();
    Run {
        middle: (reads[0].extent.start.0 as f64 + reads[reads.len() - 1].extent.end().0 as f64)
            / 2.0,
        sector_ms: if clean { base / len } else { mean / len },
        clean,
        extra_ms: extra,
        mean_ms: mean / len,
    }
}

/// Mean extra time of the requests that crossed to another track or cylinder. Much longer ones were
/// disturbed and are left out.
fn switch_ms(runs: &[Run]) -> Option<f64> {
    let all: Vec<f64> = runs.iter().flat_map(|r| &r.extra_ms).copied().collect();
    let most = DISTURBED * median(all.clone());
    let (n, sum) = all.iter().filter(|e| **e <= most).fold((0, 0.0), |(n, s), e| (n + 1, s + e));
    (n > 0).then(|| sum / f64::from(n))
}

/// Positions with one bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) sector_ms: f64,
    pub(super) switch_ms: Option<f64>,
}

/// The zones of a disk. The bounds are in the middle between positions.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub(super) zones: Vec<Zone>,
}

impl Map {
    pub(super) fn new(runs: &[Run], capacity: u64) -> Self {
        let mut zones: Vec<Zone> = Vec::new();
        let mut first = 0;
        let same = |a: &Run, b: &Run| {
            (a.sector_ms - b.sector_ms).abs() < SAME * a.sector_ms && a.clean == b.clean
        };
        let overall = switch_ms(runs);
        for group in runs.chunk_by(same) {
            let after = runs.partition_point(|r| r.middle <= group[group.len() - 1].middle);
            let end = runs
                .get(after)
                .map_or(capacity, |r| ((group[group.len() - 1].middle + r.middle) / 2.0) as u64);
            let end = end.clamp(first, capacity);
            if end == first {
                continue;
            }
            let of = |f: fn(&Run) -> f64| median(group.iter().map(f).collect());
            let clean = group.iter().all(|r| r.clean);
            zones.push(Zone {
                first,
                end,
                sector_ms: if clean { of(|r| r.sector_ms) } else { of(|r| r.mean_ms) },
                switch_ms: clean.then(|| switch_ms(group).or(overall).unwrap_or(0.0)),
            });
            first = end;
        }
        if let Some(last) = zones.last_mut() {
            last.end = capacity;
        }
        Self { zones }
    }

    pub(super) fn sector_ms(&self, lba: u64) -> f64 {
        let i = self.zones.partition_point(|z| z.end <= lba);
        self.zones.get(i.min(self.zones.len().saturating_sub(1))).map_or(0.0, |z| z.sector_ms)
    }

    /// Zones with their sectors per track, for a known revolution time.
    pub(super) fn tracks(&self, revolution_ms: f64) -> Tracks {
        let mut before = 0.0;
        let zones = self
            .zones
            .iter()
            .map(|z| {
                let per_track = (revolution_ms / z.sector_ms).round().clamp(1.0, 65_536.0);
                let t = TrackZone { zone: *z, per_track, before };
                before += (z.end - z.first) as f64 / per_track;
                t
            })
            .collect();
        Tracks { zones }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TrackZone {
    pub(super) zone: Zone,
    pub(super) per_track: f64,
    /// Number of tracks before the zone.
    before: f64,
}

/// Converts addresses to tracks.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    pub(super) zones: Vec<TrackZone>,
}

impl Tracks {
    fn at(&self, lba: u64) -> f64 {
        let i = self.zones.partition_point(|z| z.zone.end <= lba);
        self.zones
            .get(i.min(self.zones.len().saturating_sub(1)))
            .map_or(0.0, |z| z.before + lba.saturating_sub(z.zone.first) as f64 / z.per_track)
    }

    pub(super) fn count(&self) -> f64 {
        self.zones.last().map_or(1.0, |z| self.at(z.zone.end.saturating_sub(1))) + 1.0
    }

    pub(super) fn distance(&self, pair: &super::seek_band::Pair) -> f64 {
        (self.at(pair.from) - self.at(pair.to)).abs()
    }
}
