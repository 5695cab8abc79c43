//! The numbers that the EEFS paper prints of its four days.

/// The printed numbers of a day: Table 3, and Table 2 at 100,000 requests.
pub(super) struct Paper {
    pub(super) requests: [u64; 2],
    /// Percent: read, write, rotation, seek, idle, total.
    pub(super) energy: [f64; 6],
    /// Groups before, after, stable; mean size; percent that left, and joined.
    pub(super) groups: Option<[f64; 6]>,
    /// Figure 5 in percent: files used after the first, taken for those used at once; within five
    /// minutes.
    pub(super) figure5: Option<[f64; 2]>,
    /// Percent of hits: FFS, EEFS.
    pub(super) hits: Option<[f64; 2]>,
}

impl Paper {
    /// The share of the time in which FFS's disk works, from Table 3's changes of energy: the time
    /// that rotation and seek save is the time by which idling grows.
    pub(super) fn busy(&self) -> f64 {
        let [_, _, rotation, seek, idle, _] = self.energy;
        idle / (idle - (rotation + seek) / 2.0)
    }
}

pub(super) const PAPER: [Paper; 4] = [
    Paper {
        requests: [482_947, 151_901],
        energy: [12.6, 11.8, -78.5, -78.1, 25.5, -50.2],
        groups: Some([28.0, 26.0, 17.0, 7.0, 14.6, 16.7]),
        figure5: Some([49.3, 85.9]),
        hits: Some([69.76, 77.43]),
    },
    Paper {
        requests: [252_325, 79_107],
        energy: [14.4, 17.4, -75.7, -75.6, 21.9, -46.5],
        groups: Some([28.0, 27.0, 15.0, 5.0, 11.2, 9.5]),
        figure5: Some([72.3, 75.8]),
        hits: Some([80.20, 84.30]),
    },
    Paper {
        requests: [7_072, 2_217],
        energy: [11.6, 12.0, -56.5, -42.2, 15.5, -33.4],
        groups: None,
        figure5: None,
        hits: None,
    },
    Paper {
        requests: [630_057, 415_026],
        energy: [18.6, 12.0, -39.7, -40.6, 7.7, -12.3],
        groups: None,
        figure5: None,
        hits: None,
    },
];
