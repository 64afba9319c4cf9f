//! Instances of the real binary, each started again when it ends, as the kubelet does.

use std::{
    collections::HashMap,
    env, fs,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hpa_test_harness::hpa_binary;
use hpa_testbed::Testbed;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{process::Command, task::JoinSet};

use crate::{
    door::Door,
    log::{Log, Who},
};

/// A process that runs, and its way to the server.
struct Running {
    pid: Pid,
    door: Door,
}

/// What the instances share.
struct Shared {
    testbed: Testbed,
    log: Arc<Log>,
    binary: PathBuf,
    dir: TempDir,
    flags: Vec<String>,
    next: AtomicUsize,
    running: Mutex<HashMap<Who, Running>>,
}

/// Several instances.
pub(crate) struct Instances {
    shared: Arc<Shared>,
    // Dropped, they end, and their processes with them.
    _slots: JoinSet<()>,
}

impl Instances {
    /// Starts so many instances with these flags.
    pub(crate) fn start(count: usize, testbed: &Testbed, log: &Arc<Log>, flags: &[&str]) -> Self {
        let shared = Arc::new(Shared {
            testbed: testbed.clone(),
            log: log.clone(),
            binary: hpa_binary(),
            dir: TempDir::new().unwrap(),
            flags: flags.iter().map(ToString::to_string).collect(),
            next: AtomicUsize::default(),
            running: Mutex::default(),
        });
        let mut slots = JoinSet::new();
        for _ in 0..count {
            slots.spawn(shared.clone().keep_running());
        }
        Self { shared, _slots: slots }
    }

    pub(crate) fn signal(&self, who: Who, signal: Signal) {
        // It may have ended just now.
        if let Some(running) = self.shared.running.lock().unwrap().get(&who) {
            kill_process(running.pid, signal).unwrap();
        }
    }

    /// Cuts an instance off, or ends that.
    pub(crate) fn cut(&self, who: Who, cut: bool) {
        self.with_door(who, |door| _ = door.cut.send_replace(cut));
    }

    /// Has an instance wait for the metrics that it reads, or ends that.
    pub(crate) fn hold(&self, who: Who, hold: bool) {
        self.with_door(who, |door| _ = door.hold.send_replace(hold));
    }

    fn with_door(&self, who: Who, change: impl FnOnce(&Door)) {
        if let Some(running) = self.shared.running.lock().unwrap().get(&who) {
            change(&running.door);
        }
    }
}

impl Shared {
    async fn keep_running(self: Arc<Self>) {
        loop {
            let who = self.next.fetch_add(1, Ordering::SeqCst);
            let door = Door::open(who, self.testbed.clone(), self.log.clone()).await;
            let kubeconfig = self.dir.path().join(format!("{who}.yaml"));
            fs::write(&kubeconfig, Testbed::kubeconfig(door.address)).unwrap();
            let mut command = Command::new(&self.binary);
            // The caller's settings are not the test's.
            for (variable, _) in env::vars().filter(|(variable, _)| variable.starts_with("HPA_")) {
                command.env_remove(variable);
            }
            // Two run on this machine at a time.
            command
                .args(["run", "--metrics-port=0", "--kubeconfig"])
                .arg(&kubeconfig)
                .args(&self.flags);
            let output = fs::File::create(self.dir.path().join(format!("{who}.log"))).unwrap();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).kill_on_drop(true);
            let mut child = command.spawn().unwrap();
            let pid =
                child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).unwrap();
            self.running.lock().unwrap().insert(who, Running { pid, door });
            let status = child.wait().await.unwrap();
            self.running.lock().unwrap().remove(&who);
            self.log.add(|events| events.exits.insert(who, status));
        }
    }
}
