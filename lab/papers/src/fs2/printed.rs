//! The numbers that FS2 (SOSP'05) prints in the text and tables of its evaluation. Bars that stand
//! only in figures are left out.

use crate::synth::Fs2Load;

/// A row of Tables 2 to 5: shares of the disk's busy time, and improvements as shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrintedRow {
    pub(super) busy: f64,
    pub(super) access: f64,
    pub(super) seek: f64,
    pub(super) rotation: f64,
    pub(super) energy: f64,
}

#[derive(Debug)]
pub(super) struct PrintedLoad {
    pub(super) load: Fs2Load,
    pub(super) table: &'static str,
    pub(super) figures: &'static str,
    /// Share of time in which the disk is busy on Ext2.
    pub(super) busy: f64,
    pub(super) fs2: PrintedRow,
    pub(super) fs2_static: Option<PrintedRow>,
    /// T_A, T_s and T_r on Ext2 in milliseconds, and millijoules an access.
    pub(super) ext2: Option<[f64; 4]>,
    /// Seconds from start to end, Ext2 and FS2, where the load has an end.
    pub(super) runtime: Option<[f64; 2]>,
    /// Improvement of the time that a user waits, response or run time; below also of FS2-static.
    pub(super) user: f64,
    pub(super) user_static: Option<f64>,
    /// Joules of a run on Ext2 and FS2.
    pub(super) joules: Option<[f64; 2]>,
    /// Share of the energy that FS2 saves.
    pub(super) saved: f64,
}

const fn row(busy: f64, access: f64, seek: f64, rotation: f64, energy: f64) -> PrintedRow {
    PrintedRow { busy, access, seek, rotation, energy }
}

/// Tables 2 to 5, and numbers of the text beside them.
pub(super) const PRINTED: [PrintedLoad; 4] = [
    PrintedLoad {
        load: Fs2Load::TpcW,
        table: "Table 2",
        figures: "Figures 9 to 12",
        busy: 0.31,
        fs2: row(0.17, 0.50, 0.72, 0.31, 0.55),
        fs2_static: Some(row(0.23, 0.24, 0.53, -0.016, 0.31)),
        ext2: Some([8.2, 3.8, 4.3, 90.0]),
        runtime: None,
        user: 0.34,
        user_static: Some(0.20),
        joules: None,
        saved: 0.067,
    },
    PrintedLoad {
        load: Fs2Load::Cvs,
        table: "Table 3",
        figures: "Figure 13",
        busy: 0.82,
        fs2: row(0.73, 0.41, 0.38, 0.53, 0.40),
        fs2_static: None,
        ext2: None,
        runtime: Some([33.0, 23.0]),
        user: 0.31,
        user_static: None,
        joules: Some([289.0, 199.0]),
        saved: 0.31,
    },
    PrintedLoad {
        load: Fs2Load::X,
        table: "Table 4",
        figures: "Figure 14",
        busy: 0.37,
        fs2: row(0.26, 0.44, 0.53, 0.47, 0.46),
        fs2_static: None,
        ext2: None,
        // 4.6 s less are 16%.
        runtime: Some([28.75, 24.15]),
        user: 0.16,
        user_static: None,
        joules: Some([249.0, 201.0]),
        saved: 0.19,
    },
    PrintedLoad {
        load: Fs2Load::Surge,
        table: "Table 5",
        figures: "Figure 15",
        busy: 0.13,
        fs2: row(0.042, 0.69, 0.78, 0.68, 0.71),
        fs2_static: None,
        ext2: None,
        runtime: None,
        user: 0.18,
        user_static: None,
        joules: None,
        saved: 0.019,
    },
];
