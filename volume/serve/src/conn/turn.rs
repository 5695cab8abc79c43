//! One turn of a client: received bytes become requests, as long as there is space for them.

use seekless_nbd::{Command, Request, ServerEvent};

use super::{
    Conn, ConnectionOver, FIRST_BYTES, FLUSH_BYTES, Owner, REQUEST_COST_BYTES, SEVERAL,
    SHARED_BYTES, TURN_BYTES, payload_of,
};
use crate::volume::Volume;

/// What one turn of a client has done.
#[derive(Default)]
struct ClientTurn {
    /// Bytes of its requests, each counted with its least cost.
    cost: usize,
    requests: usize,
    /// Requests since the last call that received.
    in_one_call: usize,
    /// Bytes written since replies were sent.
    written: usize,
    /// Replies are sent after this number of bytes.
    enough: usize,
}

impl Conn {
    /// Acts on received bytes, as long as there is room in flight and in the turn. `alone`: no
    /// other client has input.
    pub(crate) fn act(
        &mut self,
        volume: &mut Volume<Owner>,
        alone: bool,
    ) -> Result<(), ConnectionOver> {
        let acted = self.act_on_input(volume, alone);
        self.account(&mut volume.memories.payload);
        acted
    }

    fn act_on_input(
        &mut self,
        volume: &mut Volume<Owner>,
        alone: bool,
    ) -> Result<(), ConnectionOver> {
        self.waiting = false;
        self.finish_write(volume);
        let enough = if alone { FIRST_BYTES } else { SHARED_BYTES };
        let mut turn = ClientTurn { enough, ..ClientTurn::default() };
        while self.act_once(&mut turn, volume)? {}
        self.lone = turn.requests == 1 && self.write.is_none() && !self.waiting;
        Ok(())
    }

    /// Begins one request, or takes one event from the input. False if the turn ends.
    fn act_once(
        &mut self,
        turn: &mut ClientTurn,
        volume: &mut Volume<Owner>,
    ) -> Result<bool, ConnectionOver> {
        if self.out.pending().max(turn.written) >= turn.enough && !self.blocked {
            self.flush(volume)?;
            turn.written = 0;
            turn.enough = turn.enough.max(FLUSH_BYTES);
        }
        if self.is_full() || turn.cost >= TURN_BYTES {
            self.waiting = true;
            return Ok(false);
        }
        match self.next {
            Some(request) => Ok(self.begin_next(request, turn, volume)),
            None => self.take_event(turn, volume),
        }
    }

    /// Begins the request that was taken from the input. False if it waits for memory.
    fn begin_next(
        &mut self,
        next: Request,
        turn: &mut ClientTurn,
        volume: &mut Volume<Owner>,
    ) -> bool {
        if !volume.memories.payload.admits(self.token, self.needs(&next)) {
            self.waiting = true;
            return false;
        }
        self.next = None;
        turn.cost += payload_of(&next).max(REQUEST_COST_BYTES);
        if next.command == Command::Write {
            turn.written += next.len as usize;
        }
        turn.requests += 1;
        turn.in_one_call += 1;
        self.request(next, volume);
        true
    }

    /// Gives the input to the session, and acts on its event. False if the turn ends.
    fn take_event(
        &mut self,
        turn: &mut ClientTurn,
        volume: &mut Volume<Owner>,
    ) -> Result<bool, ConnectionOver> {
        let input = self.received.get(self.start..self.end).unwrap_or_default();
        let Ok((taken, event)) = self.session.step(input, &mut self.replies) else {
            return Err(self.refuse(volume));
        };
        if !self.replies.is_empty() {
            self.say();
        }
        match event {
            ServerEvent::More(need) => {
                self.make_room(need);
                // A client with several requests in flight may have sent more: one call then
                // sends all replies. A client that waits for each reply has not.
                if turn.in_one_call < SEVERAL || !self.take()? {
                    return Ok(false);
                }
                self.finish_write(volume);
                turn.in_one_call = 0;
            }
            ServerEvent::Request(request) => {
                self.start += taken;
                self.next = Some(request);
                return Ok(true);
            }
            ServerEvent::Payload { .. } => {
                self.payload(taken);
                self.finish_write(volume);
                return Ok(true);
            }
            ServerEvent::StartTls => {
                self.start += taken;
                self.starts_tls = true;
                return Ok(false);
            }
            ServerEvent::Close => self.leaving = true,
            ServerEvent::Nothing | ServerEvent::Start { .. } => {}
        }
        self.start += taken;
        Ok(!self.leaving)
    }
}
