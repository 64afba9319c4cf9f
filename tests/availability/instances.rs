//! Runs instances of the real binary, and restarts them when they exit, like the kubelet.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hpa_testbed::Testbed;
use hpa_tests::harness::{command_without_hpa_variables, hpa_binary};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    log::{InstanceId, Log},
    proxy::Proxy,
};

/// The process of an instance and its proxy.
struct RunningInstance {
    pid: Pid,
    proxy: Proxy,
}

struct Shared {
    testbed: Testbed,
    log: Arc<Log>,
    binary: PathBuf,
    dir: TempDir,
    flags: Vec<String>,
    next_id: AtomicUsize,
    running: Mutex<HashMap<InstanceId, RunningInstance>>,
}

pub(crate) struct Instances {
    shared: Arc<Shared>,
    // Dropping the tasks kills the processes.
    _tasks: JoinSet<()>,
}

impl Instances {
    pub(crate) fn start(count: usize, testbed: &Testbed, log: &Arc<Log>, flags: &[&str]) -> Self {
        let shared = Arc::new(Shared {
            testbed: testbed.clone(),
            log: log.clone(),
            binary: hpa_binary(),
            dir: TempDir::new().unwrap(),
            flags: flags.iter().map(ToString::to_string).collect(),
            next_id: AtomicUsize::default(),
            running: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(shared.clone().keep_running());
        }
        Self { shared, _tasks: tasks }
    }

    pub(crate) fn signal(&self, instance: InstanceId, signal: Signal) {
        self.if_running(instance, |running| kill_process(running.pid, signal).unwrap());
    }

    /// Suspends an instance, and waits until all its threads are suspended: on a busy machine,
    /// they can run for some milliseconds after the signal was sent.
    pub(crate) fn suspend(&self, instance: InstanceId) {
        self.signal(instance, Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        self.if_running(instance, |running| _ = waitid(WaitId::Pid(running.pid), options).unwrap());
    }

    /// Disconnects an instance from the API server.
    pub(crate) fn disconnect(&self, instance: InstanceId) {
        self.if_running(instance, |running| _ = running.proxy.is_disconnected.send_replace(true));
    }

    pub(crate) fn reconnect(&self, instance: InstanceId) {
        self.if_running(instance, |running| _ = running.proxy.is_disconnected.send_replace(false));
    }

    /// Delays the metrics responses to an instance until [`Self::deliver_metrics`].
    pub(crate) fn delay_metrics(&self, instance: InstanceId) {
        self.if_running(instance, |running| _ = running.proxy.delays_metrics.send_replace(true));
    }

    pub(crate) fn deliver_metrics(&self, instance: InstanceId) {
        self.if_running(instance, |running| _ = running.proxy.delays_metrics.send_replace(false));
    }

    /// Calls a function with an instance, unless the instance has exited.
    fn if_running(&self, instance: InstanceId, call: impl FnOnce(&RunningInstance)) {
        if let Some(running) = self.shared.running.lock().unwrap().get(&instance) {
            call(running);
        }
    }
}

impl Shared {
    /// Runs an instance, and a new one each time it exits.
    async fn keep_running(self: Arc<Self>) {
        loop {
            let instance = self.next_id.fetch_add(1, Ordering::SeqCst);
            let proxy = Proxy::open(instance, self.testbed.clone(), self.log.clone()).await;
            let kubeconfig = self.dir.path().join(format!("{instance}.yaml"));
            fs::write(&kubeconfig, Testbed::kubeconfig(proxy.address)).unwrap();
            let mut command = command_without_hpa_variables(&self.binary);
            // Several instances run concurrently, and each needs a free port.
            command
                .args(["run", "--metrics-port=0", "--kubeconfig"])
                .arg(&kubeconfig)
                .args(&self.flags);
            let output = fs::File::create(self.dir.path().join(format!("{instance}.log"))).unwrap();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).kill_on_drop(true);
            let mut child = command.spawn().unwrap();
            let pid =
                child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).unwrap();
            self.running.lock().unwrap().insert(instance, RunningInstance { pid, proxy });
            let status = child.wait().await.unwrap();
            self.running.lock().unwrap().remove(&instance);
            self.log.add(|events| events.exits.insert(instance, status));
        }
    }
}
