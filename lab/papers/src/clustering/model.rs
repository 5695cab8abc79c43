//! The model for one disk: layouts beside a random one, lightly loaded and with queues.

use seekless_block::Bytes;
use seekless_disk::Disk;
use seekless_report::{Better, Column, Table, Unit};
use serde_json::{Value, json};

use super::{Effort, Layout, Loaded, Order, Point};
use crate::{PaperError, Progress};
use seekless_disk::clustering::{Arm, Light};

/// The layouts to compare on a disk, and the load.
#[derive(Debug)]
pub struct Model<'a> {
    /// The disk's name.
    pub disk: &'a str,
    /// Layouts beside a random one.
    pub layouts: &'a [Layout],
    /// Size of a request.
    pub block: Bytes,
    /// Lengths of the queue.
    pub queues: &'a [u32],
    /// The number of draws.
    pub effort: Effort,
}

/// The numbers of all layouts.
#[derive(Debug)]
pub struct Modelled<'a> {
    model: &'a Model<'a>,
    cylinders: u32,
    rows: Vec<Row>,
}

/// A layout's numbers.
#[derive(Debug)]
struct Row {
    name: String,
    light: Light,
    /// By queue length: in order of arrival, and in order of position.
    loaded: Vec<[Point; 2]>,
}

impl Model<'_> {
    /// The numbers for this disk.
    ///
    /// # Errors
    /// If the block is shorter than a sector, or has 2^32 sectors or more.
    pub fn compute(
        &self,
        disk: &Disk,
        progress: &Progress<'_>,
    ) -> Result<Modelled<'_>, PaperError> {
        let sectors = u32::try_from(self.block.sectors_ceil().0).ok().filter(|s| *s > 0);
        let sectors = sectors.ok_or_else(|| {
            let why = format!("a block of {}: give at least one sector, 512 bytes", self.block);
            PaperError::Invalid(why)
        })?;
        let arm = Arm::of(disk);
        let most = self.queues.iter().copied().max().unwrap_or(1);
        let loaded = Loaded::new(&arm, sectors, most, self.effort);
        let layouts = [Layout::RANDOM].into_iter().chain(self.layouts.iter().copied());
        let rows = layouts.zip(0..).map(|(layout, done)| {
            let name = layout.to_string();
            progress(&name, done, self.layouts.len() as u64 + 1);
            let access = layout.access(arm.cylinders());
            let both =
                |q: u32| [Order::Arrival, Order::Position].map(|o| loaded.point(&access, q, o));
            let light = arm.light(&access, sectors);
            Row { name, light, loaded: self.queues.iter().map(|&q| both(q)).collect() }
        });
        Ok(Modelled { model: self, cylinders: arm.cylinders(), rows: rows.collect() })
    }
}

impl Modelled<'_> {
    /// The tables for the terminal.
    pub fn tables(&self) -> [Table; 2] {
        [self.light().baseline(0), self.loaded().baseline(0)]
    }

    fn light(&self) -> Table {
        let seconds = |name: &str| Column::number(name, Unit::Seconds).better(Better::Lower);
        let utilization = Column::number("utilization", Unit::Share).better(Better::Higher);
        let title = format!("One request of {} at a time, {}", self.model.block, self.model.disk);
        Table::of(title, &self.rows)
            .text("layout", |r| r.name.as_str())
            .number("seek distance", Unit::Other("cylinders".into()), |r| r.light.distance)
            .column(seconds("seek"), |r| r.light.seek_ms / 1e3)
            .column(seconds("seek from the middle"), |r| r.light.from_middle_ms / 1e3)
            .column(seconds("rotation"), |r| r.light.rotation_ms / 1e3)
            .column(seconds("transfer"), |r| r.light.transfer_ms / 1e3)
            .column(utilization, |r| r.light.utilization)
            .done()
    }

    fn loaded(&self) -> Table {
        let title = "Utilization of a disk with a queue of constant length, requests of a cylinder in either order";
        let mut table = Table::of(title, &self.rows).text("layout", |r| r.name.as_str());
        for (i, q) in self.model.queues.iter().enumerate() {
            for (order, how) in ["by arrival", "by position"].into_iter().enumerate() {
                let column = Column::number(format!("queue {q}, {how}"), Unit::Share);
                table =
                    table.column(column.better(Better::Higher), |r| r.loaded[i][order].utilization);
            }
        }
        table.done()
    }

    /// The numbers, as schema `seekless.model/1`.
    pub fn json(&self) -> Value {
        let Model { disk, effort, .. } = self.model;
        json!({
            "schema": "seekless.model/1",
            "disk": disk,
            "cylinders": self.cylinders,
            "block_bytes": self.model.block.0,
            "runs": effort.runs,
            "seed": effort.seed,
            "layouts": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn json(&self) -> Value {
        let point = |p: &Point| {
            json!({ "seek_ms": p.seek_ms, "rotation_ms": p.rotation_ms, "transfer_ms": p.transfer_ms,
                    "a_visit": p.a_visit, "utilization": p.utilization, "spread": p.spread })
        };
        let loaded = self.loaded.iter().map(|[arrival, position]| {
            json!({ "queue": arrival.queue, "by_arrival": point(arrival), "by_position": point(position) })
        });
        let l = &self.light;
        json!({ "layout": self.name, "distance_cylinders": l.distance, "seek_ms": l.seek_ms,
                "seek_from_middle_ms": l.from_middle_ms, "rotation_ms": l.rotation_ms,
                "transfer_ms": l.transfer_ms, "utilization": l.utilization,
                "loaded": loaded.collect::<Vec<_>>() })
    }
}
