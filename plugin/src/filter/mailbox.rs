//! From streams to the root of their worker.
//!
//! A stream puts a note into the mailbox and wakes the root through a shared queue, whose name
//! is unique to this VM: the host gives each message to whoever registered the queue last, and
//! would else give all of them to one worker. One wake-up empties the mailbox, so a second is
//! not asked for while one is under way.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::host::Host;
use crate::engine::CallAnswer;
use crate::request::Guarded;

/// What a stream has to say.
pub(super) enum Note {
    /// It waits for this request to be guarded.
    Submit { stream: u32, request: Box<Guarded>, cluster: Option<String> },
    /// It was refused for want of room.
    Overloaded,
    /// It is gone, after it had submitted.
    Gone { stream: u32 },
    /// Its request was sent on, and this came of it.
    Responded { execution: u64, answer: CallAnswer, whole: bool, held: bool },
    /// Its request goes on as another stream.
    Redirected { execution: u64 },
    /// It is that stream.
    Adopted { execution: u64, stream: u32 },
}

/// What a worker's streams and root share.
#[derive(Default)]
pub(super) struct Mailbox {
    notes: RefCell<VecDeque<Note>>,
    queue: Cell<Option<u32>>,
    woken: Cell<bool>,
}

impl Mailbox {
    pub(super) fn set_queue(&self, queue: Option<u32>) {
        self.queue.set(queue);
    }

    pub(super) fn put(&self, host: &dyn Host, note: Note) {
        if let Ok(mut notes) = self.notes.try_borrow_mut() {
            notes.push_back(note);
        }
        // Where the wake-up fails, the root's next tick finds the note.
        if !self.woken.get()
            && let Some(queue) = self.queue.get()
        {
            self.woken.set(host.enqueue(queue));
        }
    }

    /// All notes, oldest first.
    pub(super) fn take(&self) -> VecDeque<Note> {
        self.woken.set(false);
        let taken = self.notes.try_borrow_mut().map(|mut notes| std::mem::take(&mut *notes));
        taken.unwrap_or_default()
    }
}
