//! What becomes of a holder that stands still for longer than its lease, shown with two processes of this service.
//!
//! The first one is truly stopped: all of its threads, by SIGSTOP, between its read and its write. It learns of nothing.

mod holder;
mod report;

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::chaos::holder::{Answer, Holder};
use crate::chaos::report::{Ended, runs, table};
use crate::error::StartError;
use crate::reserve::Way;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const SHELF: u32 = 10;
const A_WANTS: u32 = 3;
const B_WANTS: u32 = 4;

/// Shows each of the ways, and then what they came to.
pub(crate) async fn show(ways: &[Way]) -> Result<(), StartError> {
    let mut all = Vec::new();
    for way in ways {
        all.push(story(*way).await?);
        say("")?;
    }
    Ok(say(&table(&all).to_string())?)
}

/// Order A is stopped between its read and its write, order B comes, A goes on, and is sent again.
async fn story(way: Way) -> Result<Ended, StartError> {
    let name = way.name();
    say(&format!(
        "{name}: {SHELF} apples; order A of {A_WANTS} at one instance, order B of {B_WANTS} at another"
    ))?;
    let (one, two) = tokio::try_join!(Holder::start("one", way, true), Holder::start("two", way, false))?;
    // A shelf of its own, since the locks and tokens of two ways must not meet.
    let sku = format!("apple-{:x}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros());
    two.put(&format!("/stock/{sku}"), json!({ "available": SHELF })).await?;

    let mut late = Box::pin(one.reserve(&sku, "A", A_WANTS));
    tokio::select! {
        stopped = one.stands_still() => stopped?,
        early = &mut late => return Err(format!("A was answered before it was stopped: {early:?}").into()),
    }
    say(&format!("A has read that {SHELF} are left; now its process is stopped (SIGSTOP) before it writes"))?;
    let next = two.reserve(&sku, "B", B_WANTS).await?;
    tell(&format!("B waits until {}, and is answered", end_of_lock(way)), &next)?;
    one.goes_on()?;
    let late = late.await?;
    tell("A's process goes on (SIGCONT), and A is answered", &late)?;
    let jobs = two.get(&format!("/jobs?job=reserve:{sku}")).await?;
    say(&format!("who ran what, by GET /jobs:\n\n{}\n", runs(&jobs)))?;
    let again = two.reserve(&sku, "A", A_WANTS).await?;
    tell("A is sent again, by the same id", &again)?;

    let stock = two.get(&format!("/stock/{sku}")).await?;
    Ok(Ended { way, statuses: [late, next, again].map(|answer| answer.status), shelf: SHELF, stock })
}

/// What ends the lock of a holder that stands still.
fn end_of_lock(way: Way) -> &'static str {
    match way {
        Way::Naive | Way::Fenced => "A's lease has ended",
        Way::Transaction => "the server ends A's transaction, which stands still",
    }
}

fn tell(what: &str, answer: &Answer) -> io::Result<()> {
    say(&format!("{what}\n    {} {}\n    {}", answer.status, answer.content_type, answer.body))
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
