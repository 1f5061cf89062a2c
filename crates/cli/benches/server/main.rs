//! `capt server` beside kube-apiserver and etcd under one load program, in one run.
//!
//! Both sync every write to disk and are asked over TLS by 16 connections of one lean client in one thread. Client and
//! server share the machine. Every figure is the best of the rounds, for both sides alike: other work on the machine
//! only ever makes a figure worse. `CAPT_BENCH_ROUNDS` and `CAPT_BENCH_SECONDS` (of each rate) change the length.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table, and how far it is"
)]

mod client;
mod load;
mod subject;

use std::time::Duration;

use capt_e2e::{KubeApiserver, Peers};

use self::{
    load::{CLIENTS, Delivery, Figures, OBJECTS, Rate},
    subject::Subject,
};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, compare());
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

async fn compare() {
    let (rounds, seconds) = (setting("CAPT_BENCH_ROUNDS", 2), setting("CAPT_BENCH_SECONDS", 4));
    let peers = Peers::find(KubeApiserver::NEEDS).ok().filter(|_| setting("CAPT_BENCH_PEERS", 1) == 1);
    let (mut ours, mut theirs, mut disk) = (Side::default(), Side::default(), [f64::INFINITY; 2]);
    for _ in 0..rounds {
        let folder = tempfile::tempdir().expect("a folder");
        let Delivery { p50, p99 } = load::bare(folder.path());
        disk.iter_mut().zip([p50, p99]).for_each(|(best, found)| *best = best.min(millis(found)));
        let subject = Subject::ours(&folder.path().join("data")).await;
        ours.started(subject.ready);
        ours.ran(load::run(&subject, seconds, |what| eprintln!("capt: {what}")).await);
        drop(subject);
        ours.again = ours.again.min(millis(Subject::ours(&folder.path().join("data")).await.ready));
        if let Some(peers) = &peers {
            let subject = Subject::theirs(peers).await;
            theirs.started(subject.ready);
            theirs.ran(load::run(&subject, seconds, |what| eprintln!("kube-apiserver: {what}")).await);
        }
    }
    println!("{OBJECTS} objects of 1.4 KB, {CLIENTS} clients, best of {rounds} rounds");
    if peers.is_none() {
        println!("kube-apiserver and etcd are not measured (make peers builds them)");
    }
    print_table(&ours, peers.is_some().then_some(&theirs));
    println!("  the disk alone at 100 synced writes/s: p50 {:.1} ms, p99 {:.1} ms", disk[0], disk[1]);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The best figures of one server.
struct Side {
    ready: f64,
    again: f64,
    memory: [f64; 3],
    /// Creates, patches, applies, gets: a second, and microseconds of processor time for each.
    rates: [(f64, f64); 4],
    /// All, all with gzip, by label, by label with gzip.
    lists: [f64; 4],
    /// Moderate pace, then full load: p50 and p99.
    delivery: [f64; 4],
}

impl Default for Side {
    fn default() -> Self {
        let worst = f64::INFINITY;
        Self {
            ready: worst,
            again: worst,
            memory: [worst; 3],
            rates: [(0.0, worst); 4],
            lists: [worst; 4],
            delivery: [worst; 4],
        }
    }
}

impl Side {
    fn started(&mut self, ready: Duration) {
        self.ready = self.ready.min(millis(ready));
    }

    fn ran(&mut self, figures: Figures) {
        let Figures { idle, full, creates, gets, lists, patches, applies, paced, loaded, busy } = figures;
        let least = |best: &mut f64, found: f64| *best = best.min(found);
        self.memory.iter_mut().zip([idle, full, busy]).for_each(|(best, found)| least(best, found));
        for (best, Rate { per_second, processor_us }) in
            self.rates.iter_mut().zip([creates, patches, applies, gets])
        {
            *best = (best.0.max(per_second), best.1.min(processor_us));
        }
        self.lists.iter_mut().zip(lists).for_each(|(best, found)| least(best, millis(found)));
        let times = [paced.p50, paced.p99, loaded.p50, loaded.p99].map(millis);
        self.delivery.iter_mut().zip(times).for_each(|(best, found)| least(best, found));
    }
}

fn print_table(ours: &Side, theirs: Option<&Side>) {
    println!("  {:<46} {:>10} {:>10} {:>8}  aim", "", "capt", "kube", "ratio");
    let row = |what: &str, unit: &str, aim: &str, figure: &dyn Fn(&Side) -> f64, more_is_better: bool| {
        let (our, their) = (figure(ours), theirs.map(figure));
        let digits = usize::from(our < 100.0);
        let ratio = their.map(|their| if more_is_better { our / their } else { their / our });
        println!(
            "  {:<46} {our:>10.digits$} {:>10} {:>8}  {aim}",
            format!("{what}, {unit}"),
            their.map(|their| format!("{their:.digits$}")).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.1}x")).unwrap_or_default(),
        );
    };
    row("ready, new folder", "ms", "100", &|side| side.ready, false);
    println!(
        "  {:<46} {:>10.0} {:>10} {:>8}  100",
        "ready, with the data of the run, ms", ours.again, "", ""
    );
    row("memory idle", "MB", "30", &|side| side.memory[0], false);
    row("memory with 10,000 objects", "MB", "150", &|side| side.memory[1], false);
    row("memory after the run", "MB", "", &|side| side.memory[2], false);
    let rates = ["durable creates", "status patches", "server-side applies", "gets"];
    for (at, what) in rates.iter().enumerate() {
        row(what, "/s", "5x", &|side| side.rates[at].0, true);
    }
    let lists = ["list of 10,000", "the same with gzip", "a sixteenth of it by label", "the same with gzip"];
    for (at, what) in lists.iter().enumerate() {
        row(what, "ms", "5x", &|side| side.lists[at], false);
    }
    row("watch, 100 writes/s to 16 watchers, p50", "ms", "", &|side| side.delivery[0], false);
    row("watch, 100 writes/s to 16 watchers, p99", "ms", "5", &|side| side.delivery[1], false);
    row("watch, 16 writers at full speed, p50", "ms", "", &|side| side.delivery[2], false);
    row("watch, 16 writers at full speed, p99", "ms", "", &|side| side.delivery[3], false);
    println!("  processor time of the server for one request:");
    for (at, what) in rates.iter().enumerate() {
        row(what, "us", "", &|side| side.rates[at].1, false);
    }
}
