//! The adaptive policy and its guard: the actual system, and vanilla beside it. Both serve the same requests. [`Guard`] says when
//! the policy must stand aside.

use std::collections::VecDeque;

use seekless_block::{Bytes, Duration, Lba, Op, PAGE_SECTORS, Request, Sectors};
use seekless_disk::Device;
use seekless_engine::{Config, ram_pages};
use seekless_learn::{Adaptive, DayTimes, Foreseen, Guard};

use crate::measure::Measured;
use crate::metered::Metered;
use crate::simulation::{SimConfig, SimError, Simulation};

/// Requests to come that a clairvoyant policy knows.
const KNOWS: usize = 1000;

/// Disk time of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardedDay {
    /// As given to [`Guarded::offer`].
    pub day: u64,
    /// That vanilla takes, destaging of its write buffer counted.
    pub vanilla: Duration,
    /// That the policy takes for clients.
    pub clients: Duration,
    /// That the policy takes for background work.
    pub background: Duration,
}

/// The vanilla system with which the adaptive policy on this system is compared: without its reading
/// ahead and its trail, and with the same write buffer at the same place.
pub fn vanilla_of(config: &SimConfig) -> SimConfig {
    let mut vanilla = *config;
    let Config { area, write_buffer_percent, adaptive, .. } = config.engine;
    let percent = if adaptive { u64::from(write_buffer_percent) } else { 0 };
    let log = Sectors(area.0 / PAGE_SECTORS * percent / 100 * PAGE_SECTORS);
    vanilla.engine.area = log;
    vanilla.engine.write_buffer_percent = 100;
    vanilla.engine.adaptive = false;
    vanilla.engine.cluster = Bytes(0);
    // The log is the end of the area. Without a log nothing lies between the client's addresses.
    let end = vanilla.engine.capacity;
    vanilla.area_at = if log.0 == 0 { Lba(end.0) } else { config.area_at + (area - log) };
    vanilla
}

/// Two systems, and the guard between them. Every call fails if a request or an I/O so far could not be served.
#[derive(Debug)]
pub struct Guarded {
    actual: Metered,
    vanilla: Metered,
    guard: Guard,
    bypasses: bool,
    days: Vec<GuardedDay>,
    /// Times of the days that the guard has not seen.
    unseen: DayTimes,
    /// Requests that the clairvoyant policy knows of, and that are not asked yet.
    ahead: VecDeque<(u64, Request)>,
    grid: Sectors,
    knows: usize,
    /// Those of the requests ahead that were served.
    served: u64,
    /// Laps to end: each when this number of the requests ahead was served.
    ends: VecDeque<u64>,
    /// Laps that have ended, and that nobody has taken.
    ended: Vec<Measured>,
}

impl Guarded {
    /// Two devices at rest, with no copies. With all reads to come, the policy is clairvoyant.
    ///
    /// # Errors
    /// Where addresses and area do not fit the device, or it cannot spin down as asked.
    pub fn new(
        device: &Device,
        config: &SimConfig,
        reads: Option<Foreseen>,
    ) -> Result<Self, SimError> {
        let metered = |sim| Simulation::new(device.clone(), sim).map(Metered::new);
        let mut actual = metered(*config)?;
        let knows = if reads.is_some() { KNOWS } else { 0 };
        if let (Some(policy), Some(reads)) = (actual.sim.adaptive(), reads) {
            policy.foresee(reads);
        }
        Ok(Self {
            actual,
            vanilla: metered(vanilla_of(config))?,
            guard: Guard::default(),
            bypasses: false,
            days: Vec::new(),
            unseen: DayTimes::default(),
            ahead: VecDeque::new(),
            grid: config.engine.grid,
            knows,
            served: 0,
            ends: VecDeque::new(),
            ended: Vec::new(),
        })
    }

    /// Looks at the requests so far, and serves one more, which is of this day.
    pub fn offer(&mut self, day: u64, request: &Request) -> Result<(), SimError> {
        if self.knows == 0 {
            return self.serve(day, request);
        }
        self.tell(request, Foreseen::is_near);
        self.ahead.push_back((day, *request));
        if self.ahead.len() > self.knows { self.serve_known() } else { Ok(()) }
    }

    fn tell(&mut self, request: &Request, what: fn(&mut Foreseen, u64)) {
        if request.op == Op::Read
            && let Some(foreseen) = self.actual.sim.adaptive().and_then(Adaptive::foreseen)
        {
            ram_pages(self.grid, request.extent).for_each(|page| what(foreseen, page));
        }
    }

    fn serve_known(&mut self) -> Result<(), SimError> {
        let Some((day, request)) = self.ahead.pop_front() else { return Ok(()) };
        self.tell(&request, Foreseen::is_asked);
        self.serve(day, &request)?;
        self.served += 1;
        self.end_due()
    }

    fn serve(&mut self, day: u64, request: &Request) -> Result<(), SimError> {
        self.look(day);
        if self.days.last().is_none_or(|last| last.day != day) {
            self.begin_day(day, request)?;
        }
        self.vanilla.sim.offer(request)?;
        self.actual.sim.offer(request)
    }

    /// Begins a day with this request. What ends before the request may be sent is work of the day
    /// before. The guard sees it at its next look, in the account of the day that begins.
    fn begin_day(&mut self, day: u64, request: &Request) -> Result<(), SimError> {
        if !self.days.is_empty() {
            self.vanilla.sim.await_turn(request)?;
            self.actual.sim.await_turn(request)?;
            self.book();
        }
        self.days.push(GuardedDay { day, ..GuardedDay::default() });
        Ok(())
    }

    /// Books the times since the last call to the day that began last.
    fn book(&mut self) {
        let (clients, background) = self.actual.take();
        let vanilla = self.vanilla.take();
        let vanilla = vanilla.0 + vanilla.1;
        if let Some(today) = self.days.last_mut() {
            today.vanilla += vanilla;
            today.clients += clients;
            today.background += background;
        }
        self.unseen.vanilla += vanilla;
        self.unseen.actual += clients + background;
    }

    fn look(&mut self, day: u64) {
        self.book();
        let DayTimes { vanilla, actual } = std::mem::take(&mut self.unseen);
        // The guard counts operations too; the days are times.
        let vanilla = self.vanilla.counts(vanilla);
        let actual = self.actual.counts(actual);
        let bypass = self.guard.look(day, DayTimes { vanilla, actual });
        self.set_bypass(bypass);
    }

    fn set_bypass(&mut self, on: bool) {
        if on != self.bypasses {
            self.bypasses = on;
            self.actual.sim.bypass(on);
        }
    }

    fn serve_all_known(&mut self) -> Result<(), SimError> {
        while !self.ahead.is_empty() {
            self.serve_known()?;
        }
        Ok(())
    }

    /// Ends a training: guard and days begin again, and RAM and write buffer are empty, as those of a system that was not
    /// trained. The policy keeps what it learned, and its trail. Returns the background work of the training.
    pub fn end_training(&mut self) -> Result<Duration, SimError> {
        self.serve_all_known()?;
        for sim in [&mut self.vanilla.sim, &mut self.actual.sim] {
            // The measured part pays for the writes that it absorbs, and for no others. A system that
            // served nothing has none.
            if !self.days.is_empty() {
                sim.empty_buffer()?;
            }
            sim.end_ios()?;
        }
        let background = self.lap()?.background.busy();
        for metered in [&mut self.actual, &mut self.vanilla] {
            metered.take();
            metered.counts(Duration::ZERO);
            metered.sim.empty_ram();
            // Other systems begin here, so no pause precedes the next request.
            metered.sim.restart_times();
        }
        (self.guard, self.days) = (Guard::default(), Vec::new());
        self.set_bypass(false);
        Ok(background)
    }

    /// Writes home what the write buffer holds, and lets both drives end their work; see
    /// [`Simulation::drain`] and [`Simulation::end_ios`].
    pub fn drain(&mut self) -> Result<(), SimError> {
        self.serve_all_known()?;
        for sim in [&mut self.vanilla.sim, &mut self.actual.sim] {
            sim.drain()?;
            sim.end_ios()?;
        }
        Ok(())
    }

    /// Ends a lap behind the requests so far. A clairvoyant policy has yet to serve some of them,
    /// and knows what follows them: its lap ends later.
    pub fn end_lap(&mut self) -> Result<(), SimError> {
        self.ends.push_back(self.served + self.ahead.len() as u64);
        self.end_due()
    }

    /// What the actual system cost in each lap that [`Self::end_lap`] has ended since the last
    /// call; see [`Simulation::lap_on_time`].
    pub fn take_laps(&mut self) -> Vec<Measured> {
        std::mem::take(&mut self.ended)
    }

    fn end_due(&mut self) -> Result<(), SimError> {
        while self.ends.front().is_some_and(|&end| end <= self.served) {
            self.ends.pop_front();
            let measured = self.lap_served()?;
            self.ended.push(measured);
        }
        Ok(())
    }

    /// Serves all requests so far, and returns what the actual system cost since the last lap; see
    /// [`Simulation::lap_on_time`].
    pub fn lap(&mut self) -> Result<Measured, SimError> {
        self.serve_all_known()?;
        self.lap_served()
    }

    fn lap_served(&mut self) -> Result<Measured, SimError> {
        self.vanilla.lap()?;
        let measured = self.actual.lap()?;
        if let Some(last) = self.days.last() {
            self.look(last.day);
        }
        Ok(measured)
    }

    /// The accounts of the days, in order.
    pub fn days(&self) -> &[GuardedDay] {
        &self.days
    }

    /// The guard.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The actual system.
    pub const fn actual(&self) -> &Simulation {
        &self.actual.sim
    }
}
