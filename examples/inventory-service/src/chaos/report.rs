//! The tables that `--chaos` prints.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::Value;

use crate::reserve::Way;

/// How one way has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) way: Way,
    /// Of the answers to A, to B, and to A when it was sent again.
    pub(crate) statuses: [u16; 3],
    /// What was there before.
    pub(crate) shelf: u32,
    pub(crate) stock: Value,
}

pub(crate) fn table(all: &[Ended]) -> Table {
    let mut table = plain(["way", "A", "B", "A again", "reserved", "left", "should be left", "so"]);
    for ended in all {
        let number = |name: &str| ended.stock[name].as_i64().unwrap_or_default();
        let (reserved, left) = (number("reserved"), number("available"));
        let should = i64::from(ended.shelf) - reserved;
        let so = if left == should { "right".into() } else { format!("{} may be sold twice", left - should) };
        let [first, second, again] = ended.statuses.map(|status| status.to_string());
        let [reserved, left, should] = [reserved, left, should].map(|number| number.to_string());
        table.add_row([ended.way.name().to_owned(), first, second, again, reserved, left, should, so]);
    }
    table
}

/// The rows of the jobs, the first one first.
pub(crate) fn runs(jobs: &Value) -> Table {
    let mut table = plain(["job", "run", "instance", "token", "outcome"]);
    let mut rows: Vec<&Value> = jobs.as_array().into_iter().flatten().collect();
    rows.reverse();
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or("none").to_owned();
        let job = text("job");
        table.add_row([job, text("run"), text("instance"), text("token"), text("outcome")]);
    }
    table
}

fn plain<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}
