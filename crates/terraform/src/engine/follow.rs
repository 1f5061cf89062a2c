//! StateWatch a process to its end: its stream into log and progress, interrupts when it is stopped.

use std::{fs, pin::pin, time::Duration};

use futures::FutureExt;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    inner::Inner, job::phase, state_recovery::StateWatch, stream_recovery::StreamReport, table::Why,
};
use crate::{
    guard::term::LAST_GRACE,
    log::{Log, LogChunk, Tail},
    order::WorkspaceId,
    private_files::write_private,
    process::{
        Ended, Process, ProcessFiles,
        reserve::{OutputReserve, RemainingOutput},
    },
    record::Stage,
    redact::Redactor,
    stream::{self, Line, Tally},
};

/// Interval of reads of the stream. A shorter run ends before the first read, and is then read as a whole.
const LOOK: Duration = Duration::from_millis(100);
/// Every so many looks memory is measured and the exit code looked for: that reads a few files.
const MEASURE: u32 = 5;
/// As many bytes of last words are kept.
const WORDS: usize = 64 << 10;

/// Observations of a process.
pub(super) struct Followed {
    pub ended: Ended,
    /// It was stopped.
    pub why: Option<Why>,
    pub tally: Tally,
    /// Its last words that were no JSON.
    pub words: String,
    pub peak: u64,
    pub report: StreamReport,
}

pub(super) struct Follower<'a> {
    pub inner: &'a Inner,
    pub workspace: &'a WorkspaceId,
    pub files: ProcessFiles,
    pub stop: watch::Receiver<Option<Why>>,
    pub deadline: Instant,
    pub redactor: Redactor,
    pub stage: Stage,
    pub log: Log,
    pub tally: Tally,
    /// The state that the run works on.
    pub state: StateWatch,
    pub peak: u64,
    pub report: StreamReport,
    /// Of a run that changes something.
    pub ahead: Option<OutputReserve>,
}

impl Follower<'_> {
    /// Follows it to its end. `None`: the engine stops, and the process lives on. `doubted` ends where the binary turns out to
    /// be none that can be run.
    pub async fn follow(
        mut self,
        mut process: Process,
        doubted: impl Future<Output = ()>,
    ) -> Option<Followed> {
        let mut doubted = pin!(doubted.fuse());
        let mut tail = Tail::new(self.files.output());
        let mut words = String::new();
        // A run that was adopted may have been stopped by the engine before.
        let mut why: Option<Why> =
            fs::read(self.files.stopped()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut stopping = self.inner.stopping.subscribe();
        let mut looks = interval_at(Instant::now() + LOOK, LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let grace = self.inner.options.grace;
        let mut interrupts =
            Interrupts { sent: u8::from(why.is_some()), next: Instant::now() + grace, grace };
        let mut count = 0_u32;
        let ended = loop {
            tokio::select! {
                biased;
                ended = process.ended() => break ended,
                () = stops(&mut stopping) => return None,
                asked = wanted(&mut self.stop), if why.is_none() => self.halt(&mut why, asked, &mut interrupts, &mut process),
                // Who tells its version is heard.
                () = &mut doubted, if self.tally.binary.is_none() => process.kill(),
                () = sleep_until(self.deadline), if why.is_none() => {
                    self.halt(&mut why, Why::TimedOut, &mut interrupts, &mut process);
                }
                _ = looks.tick() => {
                    self.read(&mut tail, &mut words, false);
                    if self.stage.changes() {
                        self.state.look().await;
                    }
                    if why.is_none() && !self.keep_ahead() {
                        self.halt(&mut why, Why::Full, &mut interrupts, &mut process);
                    }
                    count += 1;
                    if count.is_multiple_of(MEASURE) {
                        self.peak = self.peak.max(process.peak_memory());
                        // The end of a child is told once. Should that be missed, what the guard wrote is still there to see:
                        // a run that never ends would keep its slot.
                        if let Some(ended @ Ended::Code(_)) = self.files.ended() {
                            break ended;
                        }
                    }
                    // On a full disk one that is killed would lose what it still knows.
                    if why.as_ref().is_some_and(|why| *why != Why::Full) {
                        interrupts.step(&mut process);
                    }
                }
            }
        };
        // Its guard was killed, and nobody else clears up.
        if ended == Ended::Unknown {
            process.gone().await;
        }
        // One that printed without end is read without standing in the way of others.
        while self.read(&mut tail, &mut words, true) {
            yield_now().await;
        }
        let errors = self.files.last_words();
        if !errors.trim().is_empty() {
            self.log.text(&errors, &self.redactor);
        }
        words.push_str(&errors);
        Some(Followed { ended, why, tally: self.tally, words, peak: self.peak, report: self.report })
    }

    /// Begins to stop it. That it was stopped is written down first: an interrupted plan may end as if nothing had happened.
    fn halt(&self, why: &mut Option<Why>, wanted: Why, interrupts: &mut Interrupts, process: &mut Process) {
        let bytes = serde_json::to_vec(&wanted).expect("plain data");
        // A full disk must not keep a run from being stopped.
        let _ = write_private(&self.files.stopped(), &bytes);
        *why = Some(wanted);
        interrupts.begin(process);
    }

    /// Sees to it that what there will be to tell can be written. False where it cannot.
    fn keep_ahead(&mut self) -> bool {
        let (least, progress) = (self.inner.options.reserve_bytes, self.tally.progress());
        let rest = RemainingOutput { state: self.state.size(), steps: progress.total - progress.done };
        self.ahead.as_mut().is_none_or(|ahead| ahead.keep(least, rest))
    }

    /// Reads the next part of the stream. True where there is more of it.
    fn read(&mut self, tail: &mut Tail, words: &mut String, end: bool) -> bool {
        let Ok(LogChunk { lines, more }) = tail.lines(end) else { return false };
        if lines.is_empty() {
            return more;
        }
        for raw in &lines {
            let line = stream::parse(raw);
            if let Line::Diagnostic(diagnostic) = &line
                && diagnostic.summary.starts_with("Deprecated flag: -")
            {
                // Ours: `-state` is deprecated in favour of a backend block, which every workspace would have to initialise.
                continue;
            }
            self.log.line(raw, &line, &self.redactor);
            if let Line::Other { kind, message } = &line
                && kind.is_empty()
            {
                words.push_str(message);
                words.push('\n');
                words.drain(..words.floor_char_boundary(words.len().saturating_sub(WORDS)));
            }
            self.report.note(raw, &line);
            self.tally.push(&line);
        }
        let (mut progress, phase) = (self.tally.progress(), phase(self.stage, self.tally.planned));
        progress.current = progress.current.map(|address| self.redactor.clean(&address).into_owned());
        let mut table = self.inner.table();
        let run = &mut table.entry(self.workspace).view.run;
        if let Some(run) = run.as_mut().filter(|run| run.progress != progress || run.phase != phase) {
            run.progress = progress;
            run.phase = phase;
            drop(table);
            self.inner.changed(self.workspace);
        }
        more
    }
}

/// Waits until the engine stops.
async fn stops(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Waits until somebody wants it stopped.
async fn wanted(stop: &mut watch::Receiver<Option<Why>>) -> Why {
    match stop.wait_for(Option::is_some).await.map(|why| why.clone()) {
        Ok(Some(why)) => why,
        // Nobody can want it any more.
        _ => std::future::pending().await,
    }
}

/// Interrupt, wait, interrupt again, wait, kill.
struct Interrupts {
    sent: u8,
    next: Instant,
    grace: Duration,
}

impl Interrupts {
    fn begin(&mut self, process: &mut Process) {
        self.next = Instant::now() + self.grace;
        self.sent = u8::from(process.interrupt());
    }

    fn step(&mut self, process: &mut Process) {
        let now = Instant::now();
        match self.sent {
            // The binary was not there yet: the guard was about to start it.
            0 if now < self.next => self.sent = u8::from(process.interrupt()),
            0 | 1 if now >= self.next => {
                process.interrupt();
                self.sent = 2;
                self.next = now + self.grace.min(LAST_GRACE);
            }
            2 if now >= self.next => {
                process.kill();
                self.sent = 3;
                self.next = now + LAST_GRACE;
            }
            // Not even the guard does what it should.
            3 if now >= self.next => {
                process.reap();
                self.sent = 4;
            }
            _ => {}
        }
    }
}
