//! What happened in a run, in order and with times; and the first rule that was broken.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at: Duration,
    pub text: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.3} s  {}", self.at.as_secs_f64(), self.text)
    }
}

/// A rule that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub how: String,
}

/// Shared by all that happens in a run.
#[derive(Clone)]
pub struct Journal(Rc<RefCell<Inner>>);

struct Inner {
    began: Instant,
    /// Time that passed while the machine slept.
    asleep: Duration,
    /// When it last woke.
    woke: Option<Instant>,
    /// The time that it had been awake when it last slept.
    slept_at: Option<Duration>,
    entries: Vec<Entry>,
    broken: Option<Broken>,
}

impl Journal {
    pub fn new() -> Self {
        let (began, asleep) = (Instant::now(), Duration::ZERO);
        Self(Rc::new(RefCell::new(Inner {
            began,
            asleep,
            woke: None,
            slept_at: None,
            entries: vec![],
            broken: None,
        })))
    }

    pub fn note(&self, text: impl Into<String>) {
        let mut inner = self.0.borrow_mut();
        let at = inner.began.elapsed();
        inner.entries.push(Entry { at, text: text.into() });
    }

    /// The first rule that is broken counts: what follows may follow from that.
    pub fn break_rule(&self, rule: &'static str, how: impl Into<String>) {
        let how = how.into();
        if self.is_kept() {
            self.note(format!("BROKEN: {rule}: {how}"));
            self.0.borrow_mut().broken = Some(Broken { rule, how });
        }
    }

    pub fn is_kept(&self) -> bool {
        self.0.borrow().broken.is_none()
    }

    /// The time that passed while the machine was awake: limits are measured by it.
    pub fn awake(&self) -> Duration {
        let inner = self.0.borrow();
        inner.began.elapsed() - inner.asleep
    }

    /// The machine is about to sleep for this time.
    pub fn slept(&self, time: Duration) {
        let at = self.awake();
        let mut inner = self.0.borrow_mut();
        inner.slept_at = Some(at);
        inner.asleep += time;
        inner.woke = Some(Instant::now() + time);
    }

    /// How often a time limit may be given that began then: once more if it elapsed late, as after a sleep.
    pub fn times_given(&self, since: Duration) -> u32 {
        if self.0.borrow().slept_at.is_some_and(|at| at >= since) { 2 } else { 1 }
    }

    /// Whether it has just woken: what is seen now may have been decided before it slept.
    pub fn is_awakening(&self) -> bool {
        self.0.borrow().woke == Some(Instant::now())
    }

    pub fn take(&self) -> (Vec<Entry>, Option<Broken>) {
        let mut inner = self.0.borrow_mut();
        (std::mem::take(&mut inner.entries), inner.broken.take())
    }
}
