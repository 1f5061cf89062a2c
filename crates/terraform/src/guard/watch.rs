//! The guard's own work: start Terraform, wait for it, and see to it that nothing is left.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use super::{
    ENTER, NOT_RUN, THIS_PROGRAM, complain, leftovers,
    spec::{Fence, Spec},
    term::{self, FenceAction, FencePhase, HAND_IN, HandIn, Moment, TICK},
};
use crate::{
    private_files::write_private,
    signal::{RUN_VARIABLE, interrupt, kill},
};

/// The exit code of one that may be started another time.
const NOT_NOW: u8 = 75;

/// Guards a process to its end, and has its exit code.
pub(super) fn guard(spec: &Spec) -> ExitCode {
    // What `ps` shows.
    let _ = rustix::thread::set_name(c"capt-guard");
    let code = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(watched(spec)),
        Err(error) => Err(error),
    };
    let code = code.unwrap_or_else(|error| {
        complain(&format!("guard a run: {error}"));
        NOT_RUN
    });
    // A full disk does not take it: whoever waits for this process learns it all the same.
    let write = |code| write_private(&spec.exit, format!("{code}\n").as_bytes());
    let _ = write(code);
    let code = if leftovers::clear() {
        code
    } else {
        complain("processes of this run could not be ended: look for them, and run it again");
        let _ = write(NOT_RUN);
        NOT_RUN
    };
    if let Some(fence) = &spec.fence {
        leave_behind(spec, fence);
    }
    ExitCode::from(code)
}

async fn watched(spec: &Spec) -> io::Result<u8> {
    set_child_subreaper(Some(getpid()))?;
    let mut ended = signal(SignalKind::child())?;
    // Handled, and never looked at: whoever stops a whole unit must not stop the one who clears up.
    let _ignored: Vec<Signal> =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()]
            .into_iter()
            .map(signal)
            .collect::<io::Result<_>>()?;
    let mut fencing = spec.fence.as_ref().map(Fencing::new);
    if fencing.as_mut().is_some_and(Fencing::is_over) {
        complain("not started: the lease's term is over");
        return Ok(NOT_NOW);
    }
    let terraform = start(spec)?;
    loop {
        if let Some(status) = reaped(terraform)? {
            return Ok(code(status));
        }
        match &mut fencing {
            None => drop(ended.recv().await),
            Some(fencing) => {
                tokio::select! {
                    _ = ended.recv() => {}
                    () = sleep(TICK) => {}
                }
                fencing.step(terraform);
            }
        }
    }
}

/// Starts Terraform's entrance. It makes a session and a group of its own: what a run sends to its group does not reach the guard.
fn start(spec: &Spec) -> io::Result<u32> {
    let inner = Spec {
        rules: spec.rules.clone(),
        guard: Some(getpid().as_raw_pid()),
        program: spec.program.clone(),
        args: spec.args.clone(),
        ..Spec::default()
    };
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("capt").arg(ENTER).args(inner.arguments()).stdin(Stdio::null());
    Ok(command.spawn()?.id())
}

/// Takes in who has ended, and says how Terraform did.
fn reaped(terraform: u32) -> io::Result<Option<WaitStatus>> {
    while let Some((process, status)) = wait(WaitOptions::NOHANG)? {
        if u32::try_from(Pid::as_raw_pid(process)).is_ok_and(|process| process == terraform) {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

/// The exit code as a shell has it.
fn code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_RUN)
}

/// The end of a run whose term is over.
struct Fencing<'a> {
    fence: &'a Fence,
    phase: FencePhase,
    until: Option<Moment>,
}

impl<'a> Fencing<'a> {
    fn new(fence: &'a Fence) -> Self {
        Self { fence, phase: FencePhase::Granted, until: None }
    }

    fn is_over(&mut self) -> bool {
        is_over(&self.fence.term, &mut self.until)
    }

    fn step(&mut self, terraform: u32) {
        if self.phase == FencePhase::Granted && !self.is_over() {
            return;
        }
        let (phase, action) = term::decide(self.phase, self.until, Moment::now(), self.fence.grace);
        self.phase = phase;
        match action {
            FenceAction::None => {}
            FenceAction::Interrupt => {
                // Whoever takes the run up learns why; on a full disk it is interrupted all the same.
                let _ = write_private(&self.fence.stopped, self.fence.why.as_bytes());
                interrupt(terraform);
            }
            FenceAction::Kill => kill(terraform),
        }
    }
}

/// Returns true if the term is over.
fn is_over(path: &Path, until: &mut Option<Moment>) -> bool {
    // What cannot be read renews nothing.
    *until = term::read(path).or(*until);
    until.is_none_or(|until| Moment::now() >= until)
}

/// Leaves somebody behind who hands in the end of the run, should its engine not take it in. Not this process itself: its end
/// is what the engine waits for.
fn leave_behind(spec: &Spec, fence: &Fence) {
    if fence.hand_in.is_none() {
        return;
    }
    let inner = Spec { exit: spec.exit.clone(), fence: Some(fence.clone()), ..Spec::default() };
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("capt").arg(super::HAND_IN).args(inner.arguments()).process_group(0);
    // Not one of the run any more.
    command.env_remove(RUN_VARIABLE).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        complain(&format!("hand in the end of a run: {error}"));
    }
}

/// Waits until the engine has taken in the end of a run, which removes its exit code; hands it in when the term is over before.
pub(super) fn hand_in(spec: &Spec) -> ExitCode {
    let _ = rustix::thread::set_name(c"capt-hand-in");
    let Some((fence, folder)) = spec.fence.as_ref().and_then(|fence| Some((fence, fence.hand_in.as_ref()?)))
    else {
        return ExitCode::from(NOT_RUN);
    };
    let mut until = None;
    let (mut pause, longest) = (Duration::from_millis(10), TICK);
    let waits = || fs::exists(&spec.exit).unwrap_or(true);
    while waits() && !is_over(&fence.term, &mut until) {
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
    let begin = Instant::now();
    while waits() && begin.elapsed() < HAND_IN {
        if let Ok(HandIn { program, args, env }) = HandIn::read(&fence.term) {
            let mut command = Command::new(program);
            command.args(args).arg(folder).env_clear().envs(env).stdin(Stdio::null());
            if command.status().is_ok_and(|status| status.success()) {
                return ExitCode::SUCCESS;
            }
        }
        std::thread::sleep(longest);
    }
    ExitCode::SUCCESS
}
