//! The table, on the terminal and in the documentation.

use std::fs;
use std::path::Path;
use std::process::Command;

use comfy_table::{Table, presets};

use crate::Result;
use crate::chart;
use crate::measure::Workload;
use crate::row::Found;

const PAGE: &str = "performance.md";
const CHART: &str = "performance.svg";
const BEGIN: &str = "<!-- written by tests/bench/run --write-docs: begin -->";
const END: &str = "<!-- written by tests/bench/run --write-docs: end -->";

/// All rows, with their goals.
pub(crate) fn table(found: &[(Workload, Found)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(["workload", "what", "figure", "goal", ""]);
    for (workload, found) in found {
        for row in &found.rows {
            let (goal, met) = match &row.goal {
                Some(goal) => (goal.text.as_str(), if goal.met { "met" } else { "**not met**" }),
                None => ("", ""),
            };
            table.add_row([workload.name(), &row.what, &row.figure, goal, met]);
        }
    }
    table.trim_fmt()
}

/// How many goals are met, and which are not.
pub(crate) fn summary(found: &[(Workload, Found)]) -> String {
    let (mut met, mut all, mut missed) = (0, 0, String::new());
    for (workload, found) in found {
        let mut about = "";
        for row in &found.rows {
            // A row that goes on with another cannot be read alone.
            let what = match row.what.strip_prefix("...") {
                Some(rest) => format!("{about} ...{rest}"),
                None => row.what.clone(),
            };
            if !row.what.starts_with("...") {
                about = row.what.split(':').next().unwrap_or_default();
            }
            let Some(goal) = &row.goal else { continue };
            all += 1;
            if goal.met {
                met += 1;
            } else {
                missed +=
                    &format!("\n- {}: {what}: {} instead of {}", workload.name(), row.figure, goal.text);
            }
        }
    }
    let missed = if missed.is_empty() { missed } else { format!(" Not met:\n{missed}") };
    format!("{met} of {all} goals are met.{missed}")
}

/// Whether every goal is met that should not depend on the machine.
pub(crate) fn steady_ones_are_met(found: &[(Workload, Found)]) -> bool {
    let goals = found.iter().flat_map(|(_, found)| &found.rows).filter_map(|row| row.goal.as_ref());
    goals.filter(|goal| goal.steady).all(|goal| goal.met)
}

/// How busy the machine is with other things, if this is asked before anything is measured.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// Whether this process, and so each one that it starts, comes before ordinary ones.
fn has_precedence() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the program's name, which may have spaces: the 39th field is the policy, 0 for the ordinary one.
    let policy = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(38));
    policy.is_some_and(|policy| policy != "0")
}

/// On what was measured.
pub(crate) fn conditions(quick: bool, load: &str) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, model)| model);
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let version = Command::new("redis-server").arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = version.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
    let length = if quick { "A quick run" } else { "A full run" };
    let precedence = if has_precedence() { ", all of it with real-time priority" } else { "" };
    Ok(format!(
        "{length} on {count} cores of {model}, Redis {version} on loopback{precedence}. The machine's load before it began was {load}."
    ))
}

/// Puts table and chart into the documentation.
pub(crate) fn write(docs: &Path, found: &[(Workload, Found)], load: &str) -> Result<()> {
    let path = docs.join(PAGE);
    let page = fs::read_to_string(&path)?;
    let (conditions, table, summary) = (conditions(false, load)?, table(found), summary(found));
    let written = format!("{conditions}\n\n![Chart of the figures below]({CHART})\n\n{table}\n\n{summary}");
    fs::write(&path, between(&page, &written).ok_or("the page has lost its two markers")?)?;
    let bars: Vec<_> = found.iter().flat_map(|(_, found)| found.bars.clone()).collect();
    chart::draw(&docs.join(CHART), &bars)
}

/// The page with `written` between its markers.
fn between(page: &str, written: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{written}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Goal;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb");
        assert_eq!(between(&page, "new").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb"));
        assert!(between("a", "new").is_none());
    }

    #[test]
    fn a_missed_goal_shows_and_fails_the_check_if_it_is_steady() {
        let found = |steady| {
            let mut found = Found::default();
            found.judge("x", "2", Goal { text: "<= 1".into(), met: false, steady });
            [(Workload::Cost, found)]
        };
        assert!(table(&found(true)).contains("not met"));
        assert!(!steady_ones_are_met(&found(true)) && steady_ones_are_met(&found(false)));
        assert!(summary(&found(true)).ends_with("\n- cost: x: 2 instead of <= 1"));
    }

    #[test]
    fn a_row_that_goes_on_with_another_is_told_with_its_subject() {
        let mut found = Found::default();
        found.tell("lockrt, some locks: client", "1 B");
        found.judge("... server", "2 B", Goal { text: "<= 1 B".into(), met: false, steady: true });
        let told = summary(&[(Workload::Memory, found)]);
        assert!(told.ends_with("\n- memory: lockrt, some locks ... server: 2 B instead of <= 1 B"), "{told}");
    }
}
