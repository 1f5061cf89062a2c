//! A writing process is killed again and again. Every answered write must be there afterwards, none in part, and no
//! revision may be given out twice.
//!
//! The writer is this test binary again, running only [`child`]. Each of its tasks has its own names and at most one
//! write under way, which it announces before and confirms after:
//!
//! ```text
//! try TASK NAME CONTENT      (CONTENT `-`: delete)
//! ack TASK NAME REVISION     (of the first of the two objects; the second has the next)
//! ```

use std::{
    collections::{HashMap, HashSet},
    env,
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use tokio::task::JoinSet;

use super::*;

/// How often to kill; `make e2e` sets more.
const ROUNDS: &str = "CAPT_CRASH_ROUNDS";
const FOLDER: &str = "CAPT_CRASH_FOLDER";
const ROUND: &str = "CAPT_CRASH_ROUND";
const TASKS: usize = 4;
const NAMES: u64 = 5;

/// A small generator of numbers (Marsaglia's xorshift): the same points of death in every run, as far as the
/// scheduler goes along.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn pair(task: usize, name: u64) -> [Key; 2] {
    ["left", "right"].map(|resource| key(resource, &format!("task-{task}"), &name.to_string()))
}

/// The process that the crash test kills; nothing where it is run as a test.
#[test]
fn child() {
    let (Ok(folder), Ok(round)) = (env::var(FOLDER), env::var(ROUND)) else { return };
    // Behind what the test harness has written without a line break.
    println!("\nopening");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let store = open(Path::new(&folder));
        let mut tasks: JoinSet<_> =
            (0..TASKS).map(|task| write_forever(store.clone(), round.clone(), task)).collect();
        // Whether a task failed or nobody killed it in time: it ends, which the killer takes for a failure.
        let _ = tokio::time::timeout(DEADLINE, tasks.join_next()).await;
    });
}

async fn write_forever(store: Store, round: String, task: usize) {
    let mut dice = Dice(round.parse::<u64>().unwrap() * 1000 + task as u64 + 1);
    for count in 0.. {
        let name = dice.below(NAMES);
        let keys = pair(task, name);
        let there = store.get(&keys[0]).is_some();
        let delete = there && dice.below(3) == 0;
        // Lengths differ, so that a write is anything from a part of a page to several.
        let content =
            format!("{round}.{task}.{count}.{}", "x".repeat(usize::try_from(dice.below(6000)).unwrap()));
        let step = |key: Key| match (there, delete) {
            (_, true) => Op::Delete { key, expected: None },
            (true, false) => Op::Update { key, value: value(&content), expected: None },
            (false, false) => Op::Create { key, value: value(&content) },
        };
        println!("try {task} {name} {}", if delete { "-" } else { &content });
        let objects = store.write(keys.map(step).into()).await.unwrap();
        println!("ack {task} {name} {}", objects[0].revision());
    }
}

/// What the killer knows: the state that was confirmed, and the one write of each task that was not.
#[derive(Default)]
struct Known {
    confirmed: HashMap<(usize, u64), (String, u64)>,
    tried: HashMap<usize, (u64, String)>,
    /// Revisions of changes answered in this round.
    answered: Vec<u64>,
}

impl Known {
    /// Takes a line and tells whether it was an answer.
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["try", task, name, content] => {
                self.tried.insert(task.parse().unwrap(), (name.parse().unwrap(), content.to_owned()));
            }
            ["ack", task, name, revision] => {
                let (task, name, revision) =
                    (task.parse().unwrap(), name.parse().unwrap(), revision.parse().unwrap());
                let (tried, content) = self.tried.remove(&task).expect("a write is announced");
                assert_eq!(tried, name);
                self.answered.extend([revision, revision + 1]);
                self.confirm((task, name), content, revision);
                return true;
            }
            _ => {}
        }
        false
    }

    fn confirm(&mut self, place: (usize, u64), content: String, revision: u64) {
        match &*content {
            "-" => self.confirmed.remove(&place),
            _ => self.confirmed.insert(place, (content, revision)),
        };
    }

    /// Compares with the store as it was left, and takes over what it decided about unanswered writes.
    fn check(&mut self, store: &Store, before: Revision) {
        let mut numbers: HashSet<u64> = HashSet::new();
        for revision in &self.answered {
            assert!(*revision > before.get(), "revision {revision} was there before ({before})");
            assert!(numbers.insert(*revision), "revision {revision} was given out twice");
            assert!(*revision <= store.revision().get(), "revision {revision} is lost");
        }
        for task in 0..TASKS {
            for name in 0..NAMES {
                let found = Self::found(store, task, name);
                let confirmed = self.confirmed.get(&(task, name));
                if found.as_ref() == confirmed {
                    continue;
                }
                let shown = found.as_ref().map_or("-", |(content, _)| content);
                let tried = self.tried.get(&task).filter(|(tried, _)| *tried == name);
                assert_eq!(Some(shown), tried.map(|(_, content)| &**content), "task {task} name {name}");
                let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
                self.confirm((task, name), shown.to_owned(), revision);
            }
        }
        let mut watcher = store.watch(Filter::default(), before).unwrap();
        let seen: Vec<_> = drain(&mut watcher).unwrap().iter().map(|event| event.revision().get()).collect();
        assert!(
            seen.is_sorted() && numbers.iter().all(|number| seen.contains(number)),
            "history has every answer"
        );
        self.tried.clear();
        self.answered.clear();
    }

    /// The content of a pair, which must be a whole one, and the first one's revision.
    fn found(store: &Store, task: usize, name: u64) -> Option<(String, u64)> {
        let [left, right] = pair(task, name).map(|key| store.get(&key));
        let (left, right) = match (left, right) {
            (None, None) => return None,
            (Some(left), Some(right)) => (left, right),
            (left, right) => panic!("half a write: {left:?} {right:?}"),
        };
        let revision = left.revision().get();
        let content = text(&left).split('"').nth(7).unwrap().to_owned();
        assert_eq!(text(&left), rendered(&content, revision));
        assert_eq!(text(&right), rendered(&content, revision + 1));
        Some((content, revision))
    }
}

fn spawn(folder: &Path, round: u64) -> (Child, Lines<BufReader<ChildStdout>>) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::child"), "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

#[test]
fn no_answered_write_is_lost() {
    let rounds = env::var(ROUNDS).map_or(25, |rounds| rounds.parse().unwrap());
    let folder = private();
    let (mut known, mut dice) = (Known::default(), Dice(88_172_645_463_325_252));
    let (mut before, mut answers) = (Revision::START, 0);
    for round in 1..=rounds {
        let (mut child, mut lines) = spawn(folder.path(), round);
        // Some die while they open the store, most at work.
        let wanted = if dice.below(5) == 0 { 0 } else { 1 + dice.below(120) };
        let mut heard = 0;
        for line in lines.by_ref() {
            let line = line.unwrap();
            heard += u64::from(known.hear(&line));
            if heard >= wanted && (wanted > 0 || line == "opening") {
                break;
            }
        }
        assert_eq!(heard, wanted, "the child ended by itself");
        if heard > 0 && round % 5 == 0 {
            let error = Store::open(folder.path(), &Options::default()).unwrap_err();
            assert!(
                matches!(error, OpenError::InUse { holder, .. } if holder == Some(child.id())),
                "{error}"
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died; its last line may be cut short.
        for line in lines {
            answers += u64::from(known.hear(&line.unwrap()));
        }
        answers += heard;
        let store = open(folder.path());
        known.check(&store, before);
        before = store.revision();
    }
    println!("{rounds} kills, {answers} answered writes, all found; revision {before}");
}
