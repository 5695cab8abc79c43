//! The state of a volume in words, for `seekless volume status`.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use seekless_block::Bytes;

use super::state::{ReplicaState, VolumeState};
use crate::status::{AdaptiveStatus, ElsewhereStatus, MemoryStatus, ScrubStatus};

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(self))
    }
}

fn words(s: &VolumeState) -> String {
    let served = if s.served { "served" } else { "not served" };
    let lasting = if s.lasting { "" } else { ", temporary: removed when the server ends" };
    let verdict = s.verdict.as_ref().map_or_else(String::new, |v| format!("verdict  {}\n", v.text));
    let mut text = verdict
        + &format!(
            "volume   {} ({}), {served}\narea     {}{lasting}\nmode     {}\ndirty    {}\ncopies   {}",
            s.backing,
            Bytes(s.size_bytes),
            Bytes(s.area_bytes),
            s.mode,
            if s.dirty_bytes > 0 {
                format!("{} only in the area", Bytes(s.dirty_bytes))
            } else if s.drained {
                "nothing; everything is at home".to_owned()
            } else {
                "nothing now".to_owned()
            },
            Bytes(s.copied_bytes),
        );
    if s.in_doubt_bytes > 0 {
        text += &format!(", and {} to be compared with home", Bytes(s.in_doubt_bytes));
    }
    if s.guarded {
        text += "\nguard    up: the bare disk cannot be mounted; `seekless volume drain` removes the guard";
    }
    if let Some((done, all)) = s.moving_bytes {
        text += &format!("\nmoving   {} of {}", Bytes(done), Bytes(all));
    }
    text += &s.adaptive.as_ref().map_or_else(String::new, adaptive);
    text += &s.replicas.as_ref().map_or_else(String::new, replicas);
    if s.served {
        text += &format!("\nrequests {}, NBD clients {}", s.requests, s.nbd_clients);
    }
    if s.damaged_pages > 0 {
        text += &format!(
            "\ndamaged  {} pages of the area did not match their checksums; run `seekless volume check --data`",
            s.damaged_pages
        );
    }
    text += &s.scrub.as_ref().map_or_else(String::new, scrub);
    text += &s.elsewhere.as_ref().map_or_else(String::new, elsewhere);
    text += &s.memory.as_ref().map_or_else(String::new, memory);
    text += &s.operations.map_or_else(String::new, |o| format!("\nprovider {o}"));
    if s.fell_back {
        text += "\nfailing  the area: an I/O of the area failed, so writes go home; `seekless volume mode` sets write-back again";
    }
    if let Some(trouble) = &s.trouble {
        text += &format!("\nstuck    {trouble}");
    }
    if let Some(failure) = &s.last_failure {
        text += &format!("\nfailed   {failure}");
    }
    text
}

fn scrub(s: &ScrubStatus) -> String {
    let when = match s.last_end_unix_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)) {
        Some(end) => {
            let hours = end.elapsed().unwrap_or_default().as_secs_f64() / 3600.0;
            format!("last pass ended {hours:.1} hours ago")
        }
        None => "no pass has ended yet".to_owned(),
    };
    let now = if s.running { ", one is running" } else { "" };
    let mut text =
        format!("\nscrub    {when}{now}; {} pages compared, {} damaged", s.pages, s.damaged_pages);
    if s.lost_pages > 0 {
        text += &format!(
            "\nLOST     {} damaged pages have no other copy: reads of these pages fail until a client writes them; stop the server, run `seekless volume check --data` and `seekless volume repair`",
            s.lost_pages
        );
    }
    text
}

fn elsewhere(e: &ElsewhereStatus) -> String {
    format!(
        "\nhome     {}: {} reads, {} changes; connected again {} times, {} requests sent again, {:.1} s without a connection",
        if e.connected { "on another server" } else { "NOT CONNECTED to its server" },
        e.reads,
        e.changes,
        e.reconnects,
        e.sent_again,
        e.away_s,
    )
}

fn memory(m: &MemoryStatus) -> String {
    let most = m.most_bytes.map_or_else(String::new, |b| format!("{} at most, ", Bytes(b)));
    let mut text = format!(
        "\nmemory   {most}{} for pages, {} in buffers now",
        Bytes(m.pages_bytes),
        Bytes(m.buffers_bytes)
    );
    if m.waiting_clients > 0 {
        text += &format!("; {} clients wait for memory", m.waiting_clients);
    }
    text
}

fn adaptive(a: &AdaptiveStatus) -> String {
    let mut text = format!(
        "\nadaptive {} pages read ahead, {} used, {} not; ",
        a.prefetched_pages, a.prefetch_used_pages, a.prefetch_unused_pages
    );
    text += &match a.trail_bytes {
        0 => "no trail".to_owned(),
        all => format!("the trail is at {} of {}", Bytes(a.trail_position_bytes), Bytes(all)),
    };
    if let Some(g) = a.guard {
        text += &format!(
            "\ntoday    disk time {:.1} s, of the vanilla system {:.1} s; worst excess {:.1} s",
            g.actual_today_s, g.vanilla_today_s, g.worst_excess_s
        );
    }
    text + &format!("\n         {}", a.guard_note)
}

fn replicas(r: &ReplicaState) -> String {
    let percent = |part: u64| part as f64 * 100.0 / r.home_bytes.max(1) as f64;
    let mut text = format!(
        "\nreplicas in discarded pages, {} at most; {:.1}% of the volume is discarded, {:.1}% spare",
        Bytes(r.room_bytes),
        percent(r.free_bytes),
        percent(r.spare_bytes),
    );
    if r.suspended {
        text += ": below 10% replication stops, until 15% are spare again";
    }
    if r.stained_bytes > 0 {
        let stained = Bytes(r.stained_bytes);
        text += &format!(
            "\nstained  {stained} of discarded pages may hold bytes of replicas; `seekless volume drain` writes zeroes there"
        );
    }
    text
}
