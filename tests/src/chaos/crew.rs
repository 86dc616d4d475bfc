//! The worker processes: started, stopped, killed, spoken to and listened to.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::history::{Recorder, Teller};
use super::worker::{Command, Orders};

/// The workers of one class; killed on drop.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Member>,
    recorder: Arc<Recorder>,
    lives: u64,
}

#[derive(Debug)]
struct Member {
    orders: Orders,
    process: Child,
    input: ChildStdin,
    reader: Option<JoinHandle<()>>,
    stopped: bool,
}

impl Crew {
    /// Starts a worker for each of `orders`.
    pub(super) fn start(orders: Vec<Orders>, recorder: Arc<Recorder>) -> Self {
        let member = |(place, orders)| Member::start(orders, Teller { place, life: 0 }, &recorder);
        let members = orders.into_iter().enumerate().map(member).collect();
        Self { members, recorder, lives: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Stops the process in `place`, until it is resumed.
    pub(super) fn stop(&mut self, place: usize) {
        let member = &mut self.members[place];
        member.signal(Signal::STOP);
        member.stopped = true;
    }

    /// Lets every stopped process go on.
    pub(super) fn resume(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.stopped) {
            member.stopped = false;
            member.signal(Signal::CONT);
        }
    }

    /// Kills the process in `place` and starts another one there.
    pub(super) fn replace(&mut self, place: usize) {
        self.lives += 1;
        let member = &mut self.members[place];
        member.end();
        let orders =
            Orders { seed: member.orders.seed.wrapping_add(self.lives << 16), ..member.orders.clone() };
        *member = Member::start(orders, Teller { place, life: self.lives }, &self.recorder);
    }

    /// Tells one worker.
    pub(super) fn order(&mut self, place: usize, command: Command) {
        // A worker that is gone is found out by what it does not tell.
        let _ = writeln!(self.members[place].input, "{}", command.word());
    }

    /// Tells every worker.
    pub(super) fn order_all(&mut self, command: Command) {
        for place in 0..self.len() {
            self.order(place, command);
        }
    }
}

impl Member {
    fn start(orders: Orders, teller: Teller, recorder: &Arc<Recorder>) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut program = Program::new(program);
        program.args(orders.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn().expect("this program can be started again");
        let input = process.stdin.take().expect("its input is a pipe");
        let output = process.stdout.take().expect("its output is a pipe");
        let recorder = Arc::clone(recorder);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                recorder.history().take(teller, &line);
            }
        });
        Self { orders, process, input, reader: Some(reader), stopped: false }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the process, stopped or not, and reads what it has written.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}
