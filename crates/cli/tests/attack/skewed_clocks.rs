//! Two controllers whose clocks are a minute apart, in either direction, and the leading one stands still in the middle of a run: one
//! leads at a time, the other takes over, no two runs of one workspace overlap, and nothing is written by the old one any more.
//!
//! Each is what `capt controller` is made of, on a thread of its own whose clock the test decides: the clock of a process cannot be set
//! apart from that of its machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capt_controllers::runtime::Clock;
use capt_controllers::runtime::lease::{Candidate, Held, LeaseHealth};
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_controllers::{ClusterApi, Controllers, Options};
use capt_e2e::until;
use capt_terraform::Engine;
use capt_terraform::guard::term::{HandIn, Term};
use capt_terraform::state_backend::StateBackend;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::oneshot;

use crate::audited::{kubeconfig_of, late_writes};
use crate::two_controllers::{module, trace, wrong};
use crate::world::{SOON, World, ready, workspace};

const NAME: &str = "capt-controller";
/// Short, so that the test is.
const LASTS: Duration = Duration::from_secs(3);
/// How long a hand-over may take on a busy machine: far less than the clocks are apart.
const HAND_OVER: Duration = Duration::from_secs(30);

/// The real time, and so much more.
struct Skewed(SignedDuration);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.0
    }
}

/// A controller on a thread of its own. All that it does stops with the thread, as with a process.
struct Controller {
    health: LeaseHealth,
    folder: PathBuf,
    freeze: Option<oneshot::Sender<mpsc::Receiver<()>>>,
    stop: Option<oneshot::Sender<()>>,
    /// Ends with the cause where the Lease was lost.
    thread: JoinHandle<Option<String>>,
}

impl Controller {
    fn start(world: &World, name: &str, ahead: SignedDuration) -> Self {
        let folder = world.folder.path().join(name);
        let health = LeaseHealth::default();
        let (freeze, frozen) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let start = Start {
            kubeconfig: kubeconfig_of(world, name),
            folder: folder.clone(),
            candidate: Candidate {
                clock: Arc::new(Skewed(ahead)),
                health: health.clone(),
                ..Candidate::new("default", NAME, name, LASTS)
            },
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.spawn(async {
                // On purpose: nothing else of this thread moves meanwhile, as after SIGSTOP.
                let _ = frozen.await.map(|thaw: mpsc::Receiver<()>| thaw.recv());
            });
            runtime.block_on(start.work(ahead, stopped))
        });
        Self { health, folder, freeze: Some(freeze), stop: Some(stop), thread }
    }

    /// Stands still until the sender says so.
    fn freeze(&mut self) -> mpsc::Sender<()> {
        let (thaw, thawed) = mpsc::channel();
        self.freeze.take().unwrap().send(thawed).unwrap();
        thaw
    }

    async fn leads(&self) {
        let leads = until("it leads", SOON, async || self.health.is_leading().then_some(()));
        leads.await.unwrap();
    }

    async fn ends(self) -> Option<String> {
        let ended = until("it ends", SOON, async || self.thread.is_finished().then_some(()));
        ended.await.unwrap();
        self.thread.join().unwrap()
    }
}

/// What a controller starts with.
struct Start {
    kubeconfig: PathBuf,
    folder: PathBuf,
    candidate: Candidate,
}

impl Start {
    /// What `capt controller` does.
    async fn work(self, ahead: SignedDuration, stopped: oneshot::Receiver<()>) -> Option<String> {
        let Self { kubeconfig, folder, candidate } = self;
        let own = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(own, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let mut lease = candidate.take(&client, |_| false).await.unwrap();
        let mut options = capt_terraform::Options::new(folder.join("terraform"));
        options.guard = env!("CARGO_BIN_EXE_capt").into();
        options.lease = Some(capt_terraform::engine::Lease { lasts: LASTS });
        let term = Term::open(&options.folder).unwrap();
        hand_in(&options.folder, &kubeconfig, &folder, &lease);
        lease.bind(term).unwrap();
        let backend = SecretStateBackend::new(client.clone(), lease.fence(), true, "default");
        let backend = Arc::new(backend.claimed(lease.claim()));
        options.state_backend = Some(Arc::clone(&backend) as Arc<dyn StateBackend>);
        let engine = Engine::start(options).await.unwrap();
        let options = Options {
            clock: Arc::new(Skewed(ahead)),
            state_backend: Some(backend),
            cluster_api: ClusterApi::Core,
            ..Options::default()
        };
        let mut controllers = Controllers::start(&lease.fenced(&client), Arc::new(engine.clone()), &options);
        tokio::select! {
            lost = lease.keep() => return Some(lost.to_string()),
            () = controllers.ended() => return Some("a controller ended".to_owned()),
            _ = stopped => {}
        }
        controllers.stop().await;
        engine.stop().await;
        lease.release().await;
        None
    }
}

/// The command by which guards hand in states.
fn hand_in(engine: &Path, kubeconfig: &Path, folder: &Path, lease: &Held) {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (fence, holder) = (lease.fence().to_string(), lease.claim().holder().to_owned());
    let args = ["__hand-in-state".to_owned(), fence, holder, "default".to_owned()];
    let args = args.into_iter().chain([text(kubeconfig), text(folder)]).collect();
    let env = std::env::vars().collect();
    HandIn { program: env!("CARGO_BIN_EXE_capt").into(), args, env }.write(engine).unwrap();
}

/// It neither takes the Lease while the other one renews it, nor waits longer than the Lease lasts.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_a_minute_behind_decides_nothing() {
    take_over(SignedDuration::from_mins(1), SignedDuration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_a_minute_ahead_decides_nothing() {
    take_over(SignedDuration::ZERO, SignedDuration::from_mins(1)).await;
}

async fn take_over(first_ahead: SignedDuration, second_ahead: SignedDuration) {
    if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
        return;
    }
    let world = World::server().await;
    world.install().await;
    let mut first = Controller::start(&world, "first", first_ahead);
    first.leads().await;
    let mut second = Controller::start(&world, "second", second_ahead);
    renewals(&world, &second, first_ahead).await;
    world.apply(&workspace("w", &module(), json!({}))).await;
    let began = until("a run begins", SOON, async || (!trace(&first.folder).is_empty()).then_some(()));
    began.await.unwrap();
    assert!(second.health.is_standby() && first.health.is_leading(), "one leads");
    let thaw = first.freeze();
    let since = Instant::now();
    second.leads().await;
    assert!(since.elapsed() < HAND_OVER, "it took over after {:?}", since.elapsed());
    let good = |object: &_| ready(object).is_some_and(|(status, _)| status == "True");
    world.workspace("w", "the other one has finished it", good).await;
    thaw.send(()).unwrap();
    let why = first.ends().await.expect("the first one lost its Lease");
    assert!(why.contains("somebody else may hold it now") || why.contains("is held by second"), "{why}");
    assert!(second.health.is_leading());
    second.stop.take().unwrap().send(()).unwrap();
    assert_eq!(second.ends().await, None);

    let lines = trace(world.folder.path());
    assert_eq!(wrong(&lines), None, "{lines:#?}");
    assert_eq!(late_writes(&world, "first", "second"), Vec::<String>::new());
}

/// Waits until the first one has renewed its Lease for longer than it lasts, beside one that would like to have it.
async fn renewals(world: &World, second: &Controller, ahead: SignedDuration) {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
    let mut seen = BTreeSet::new();
    let renewed = until("renewals", SOON, async || {
        let spec = leases.get(NAME).await.unwrap().spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("first"));
        if second.health.is_standby() {
            seen.insert(spec.renew_time.unwrap().0);
        }
        let all = seen.last()?.duration_since(*seen.first()?);
        (all > SignedDuration::from_secs(5)).then_some(())
    });
    renewed.await.unwrap();
    let off = seen.last().unwrap().duration_since(Timestamp::now());
    assert!((off - ahead).abs() < SignedDuration::from_secs(20), "the clock of the test is {off:?} off");
}
