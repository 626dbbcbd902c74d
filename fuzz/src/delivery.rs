//! How bytes arrive: cut at any place, with pauses between the pieces.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use tokio::task::yield_now;

/// The pause after a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Others run, then the next piece follows.
    Yield,
    /// This much time passes.
    Wait(Duration),
}

impl Pause {
    /// Waits; for the paused time of a runtime.
    pub async fn pass(self) {
        match self {
            Self::Yield => yield_now().await,
            Self::Wait(time) => tokio::time::sleep(time).await,
        }
    }

    /// Lets others run as often as they have something to do.
    pub async fn let_others_run(self) {
        let times = if self == Self::Yield { 1 } else { 30 };
        for _ in 0..times {
            yield_now().await;
        }
    }
}

/// Where bytes are cut, and how long the next piece takes.
#[derive(Debug, Clone, Default)]
pub struct Cuts(Vec<(usize, Pause)>);

impl Cuts {
    /// No cut, a few, or one after every so many bytes.
    pub fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let mut cuts = Vec::new();
        match u.int_in_range(0..=5)? {
            0..3 => {}
            3 => cuts = vec![(u.int_in_range(1..=64)?, Pause::Yield); 40],
            _ => {
                for _ in 0..u.int_in_range(1..=8)? {
                    let pause = match u.int_in_range(0..=3)? {
                        0 => Pause::Wait(Duration::from_millis(u.int_in_range(0..=20_000)?)),
                        _ => Pause::Yield,
                    };
                    cuts.push((u.int_in_range(0..=200)?, pause));
                }
            }
        }
        Ok(Self(cuts))
    }

    /// The pieces, each with the pause after it.
    pub fn pieces<'a>(&self, bytes: &'a [u8]) -> Vec<(&'a [u8], Pause)> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for (length, pause) in &self.0 {
            let Some((piece, behind)) = rest.split_at_checked(*length) else { break };
            pieces.push((piece, *pause));
            rest = behind;
        }
        pieces.push((rest, Pause::Yield));
        pieces
    }
}
