//! The handshake: the client's flags and the client's options, each with its answer. Requests are
//! handled elsewhere.

use super::{ServerEvent, ServerSession, ServerState, StepResult, Tls};
use crate::error::{Violation, ViolationKind};
use crate::export::Export;
use crate::wire::{
    self, ALLOCATION_CONTEXT, ALLOCATION_ID, Fields, MAX_OPTION_BYTES, OPT_ABORT, OPT_EXPORT_NAME,
    OPT_GO, OPT_INFO, OPT_LIST, OPT_LIST_META_CONTEXT, OPT_SET_META_CONTEXT, OPT_STARTTLS,
    OPT_STRUCTURED_REPLY, OPTION_BYTES, OPTION_MAGIC, REP_ACK, REP_ERR_INVALID, REP_ERR_TLS_REQD,
    REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_META_CONTEXT, REP_SERVER, put,
};

/// A refused option: the type of the reply and a message for people.
type Refusal = (u32, &'static str);
type Answered<T> = Result<T, Refusal>;

const MALFORMED: Refusal = (REP_ERR_INVALID, "the option's data is malformed");
const TLS_FIRST: Refusal = (REP_ERR_TLS_REQD, "this server requires TLS: STARTTLS first");
const NO_SUCH_EXPORT: Refusal = (REP_ERR_UNKNOWN, "no export of this name");

impl ServerSession {
    pub(super) fn client_flags(&mut self, input: &[u8]) -> StepResult {
        let Some(flags) = Fields(input).u32() else {
            return Ok((0, ServerEvent::More(4)));
        };
        let offered = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
        if flags & !offered != 0 {
            return Err(self.violation(ViolationKind::ClientFlags(flags)));
        }
        self.fixed = flags & u32::from(wire::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(wire::NO_ZEROES) != 0;
        self.state = ServerState::Options;
        Ok((4, ServerEvent::Nothing))
    }

    /// Parses one option, header and data, and answers it.
    pub(super) fn option(&mut self, input: &[u8], out: &mut Vec<u8>) -> StepResult {
        let mut f = Fields(input);
        let (Some(magic), Some(option), Some(len)) = (f.u64(), f.u32(), f.u32()) else {
            return Ok((0, ServerEvent::More(OPTION_BYTES)));
        };
        if magic != OPTION_MAGIC {
            return Err(self.violation(ViolationKind::Magic {
                what: "an option",
                expected: OPTION_MAGIC,
                found: magic,
            }));
        }
        if !self.fixed && option != OPT_EXPORT_NAME {
            return Err(self.violation(ViolationKind::NotFixedNewstyle(option)));
        }
        if len as usize > MAX_OPTION_BYTES {
            if option == OPT_EXPORT_NAME {
                return Err(self.violation(ViolationKind::UnknownExport));
            }
            if option == OPT_SET_META_CONTEXT {
                self.allocation_of = None;
            }
            push_reply(out, option, REP_ERR_TOO_BIG, b"the option's data is too long");
            self.state = ServerState::SkipOption(len);
            return Ok((OPTION_BYTES, ServerEvent::Nothing));
        }
        let Some(data) = f.bytes(len as usize) else {
            return Ok((0, ServerEvent::More(OPTION_BYTES + len as usize)));
        };
        let taken = OPTION_BYTES + data.len();
        let before = out.len();
        let event = match option {
            OPT_EXPORT_NAME if self.tls == Tls::Required => {
                return Err(self.violation(ViolationKind::TlsRequired));
            }
            OPT_EXPORT_NAME => self.export_name(data, out)?,
            OPT_ABORT => {
                push_reply(out, option, REP_ACK, &[]);
                self.state = ServerState::Closed;
                ServerEvent::Close
            }
            _ => match self.answer(option, data, out) {
                Ok(event) => event,
                Err((kind, why)) => {
                    out.truncate(before);
                    push_reply(out, option, kind, why.as_bytes());
                    ServerEvent::Nothing
                }
            },
        };
        Ok((taken, event))
    }

    /// Answers the options that have error replies.
    fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Answered<ServerEvent> {
        match option {
            OPT_STARTTLS if self.tls == Tls::Required => {
                if !data.is_empty() {
                    return Err(MALFORMED);
                }
                self.tls = Tls::On;
                push_reply(out, option, REP_ACK, &[]);
                return Ok(ServerEvent::StartTls);
            }
            _ if self.tls == Tls::Required => return Err(TLS_FIRST),
            OPT_STARTTLS if self.tls == Tls::On => {
                return Err((REP_ERR_INVALID, "TLS has begun already"));
            }
            OPT_LIST | OPT_STRUCTURED_REPLY if !data.is_empty() => return Err(MALFORMED),
            OPT_LIST => {
                for export in self.exports.iter() {
                    let name = export.name.as_bytes();
                    let mut reply = (name.len() as u32).to_be_bytes().to_vec();
                    reply.extend_from_slice(name);
                    reply.extend_from_slice(export.description.as_bytes());
                    push_reply(out, option, REP_SERVER, &reply);
                }
            }
            OPT_STRUCTURED_REPLY => self.structured = true,
            OPT_INFO | OPT_GO => {
                let export = self.info(option, data, out)?;
                if option == OPT_GO {
                    push_reply(out, option, REP_ACK, &[]);
                    return Ok(self.start(export));
                }
            }
            OPT_LIST_META_CONTEXT => {
                self.contexts(option, data, out)?;
            }
            OPT_SET_META_CONTEXT => {
                // A new selection replaces the old one, even if the new one fails.
                self.allocation_of = None;
                let (export, chosen) = self.contexts(option, data, out)?;
                self.allocation_of = chosen.then_some(export);
            }
            _ => return Err((REP_ERR_UNSUP, "this server does not know the option")),
        }
        push_reply(out, option, REP_ACK, &[]);
        Ok(ServerEvent::Nothing)
    }

    fn find(&self, name: &[u8]) -> Answered<usize> {
        self.exports.iter().position(|e| e.name.as_bytes() == name).ok_or(NO_SUCH_EXPORT)
    }

    /// Answers `EXPORT_NAME`, which has no error reply.
    fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Result<ServerEvent, Violation> {
        let unknown = self.violation(ViolationKind::UnknownExport);
        let index = self.find(name).map_err(|_| unknown)?;
        let export = self.exports.get(index).ok_or(unknown)?;
        put!(out, export.size, export.wire_flags(self.structured).bits());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Ok(self.start(index))
    }

    /// Answers `INFO` and `GO`, except for the final reply.
    fn info(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Answered<usize> {
        let mut f = Fields(data);
        let name = f.string().ok_or(MALFORMED)?;
        let count = f.u16().ok_or(MALFORMED)?;
        let asked = f.bytes(usize::from(count) * 2).ok_or(MALFORMED)?;
        if !f.is_empty() {
            return Err(MALFORMED);
        }
        let index = self.find(name)?;
        let export = self.exports.get(index).ok_or(NO_SUCH_EXPORT)?;
        push_info(out, option, export, wire::INFO_EXPORT, self.structured);
        // Send each kind at most once, even if the client asks for it several times.
        for kind in [wire::INFO_NAME, wire::INFO_DESCRIPTION, wire::INFO_BLOCK_SIZE] {
            let wanted = asked.as_chunks::<2>().0.iter().any(|k| u16::from_be_bytes(*k) == kind);
            if wanted && !(kind == wire::INFO_DESCRIPTION && export.description.is_empty()) {
                push_info(out, option, export, kind, self.structured);
            }
        }
        Ok(index)
    }

    /// Answers `LIST_META_CONTEXT` and `SET_META_CONTEXT`, except for the final reply. Returns the
    /// export, and whether `base:allocation` is among the answers.
    fn contexts(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Answered<(usize, bool)> {
        if !self.structured {
            return Err((REP_ERR_INVALID, "negotiate structured replies first"));
        }
        let mut f = Fields(data);
        let name = f.string().ok_or(MALFORMED)?;
        let queries = f.u32().ok_or(MALFORMED)?;
        let list = option == OPT_LIST_META_CONTEXT;
        let mut chosen = list && queries == 0;
        for _ in 0..queries {
            let query = f.string().ok_or(MALFORMED)?;
            chosen |= query == ALLOCATION_CONTEXT.as_bytes() || (list && query == b"base:");
        }
        if !f.is_empty() {
            return Err(MALFORMED);
        }
        let index = self.find(name)?;
        if chosen {
            let id = if list { 0 } else { ALLOCATION_ID };
            let mut reply = id.to_be_bytes().to_vec();
            reply.extend_from_slice(ALLOCATION_CONTEXT.as_bytes());
            push_reply(out, option, REP_META_CONTEXT, &reply);
        }
        Ok((index, chosen))
    }
}

fn push_info(out: &mut Vec<u8>, option: u32, export: &Export, kind: u16, structured: bool) {
    let mut reply = kind.to_be_bytes().to_vec();
    match kind {
        wire::INFO_EXPORT => {
            reply.extend_from_slice(&export.size.to_be_bytes());
            reply.extend_from_slice(&export.wire_flags(structured).bits().to_be_bytes());
        }
        wire::INFO_NAME => reply.extend_from_slice(export.name.as_bytes()),
        wire::INFO_DESCRIPTION => reply.extend_from_slice(export.description.as_bytes()),
        _ => {
            for size in [export.block.minimum, export.block.preferred, export.block.maximum] {
                reply.extend_from_slice(&size.to_be_bytes());
            }
        }
    }
    push_reply(out, option, REP_INFO, &reply);
}

fn push_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    put!(out, wire::OPTION_REPLY_MAGIC, option, kind, data.len() as u32);
    out.extend_from_slice(data);
}
