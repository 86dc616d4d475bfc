//! What came out of one class, and what of it must not be.

use comfy_table::{Table, presets};

use super::class::Class;
use super::scene::Scene;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) scene: Scene,
    /// Grants per second while the faults lasted.
    pub(super) load: u64,
    pub(super) injections: u64,
    pub(super) grants: u64,
    pub(super) overlaps: u64,
    /// One of them, in words.
    pub(super) overlap: Option<String>,
    pub(super) lost_plain: u64,
    pub(super) lost_fenced: u64,
    /// Writes and entries that the fenced counters refused.
    pub(super) refused: u64,
    pub(super) repeated_tokens: u64,
    pub(super) falling_tokens: u64,
    pub(super) early_waits: u64,
    pub(super) late_waits: u64,
    /// The latest of them, in words.
    pub(super) latest: Option<String>,
    /// Until the last hot key was granted again; none if one never was.
    pub(super) recovery_ms: Option<u64>,
    /// Keys that stayed without a holder, and managers that could not shut down in order.
    pub(super) leaks: u64,
    /// One of the keys, in words.
    pub(super) leak: Option<String>,
    /// Queues in which somebody stood who is gone; they end within a minute.
    pub(super) queues: u64,
    pub(super) troubles: Vec<String>,
}

/// Within this time after the end of all faults each hot key must be granted: its ttl, and 2 s.
pub(super) const RECOVERY_MS: u64 = 2_500;

impl Row {
    /// Everything that must not be, in sentences; nothing if all is well.
    pub(super) fn complaints(&self) -> Vec<String> {
        let (scene, class) = (self.scene, self.scene.class);
        let none = |count: u64, what: &str| (count > 0).then(|| format!("{scene}: {count} {what}"));
        let some = |count: u64, what: &str| (count == 0).then(|| format!("{scene}: no {what}"));
        let overlaps = if class.loses_locks() { 0 } else { self.overlaps };
        let queues = if class.leaves_queues() { 0 } else { self.queues };
        let injections = if class == Class::Baseline { 1 } else { self.injections };
        let refused = if class.must_be_refused() { self.refused } else { 1 };
        let recovered = self.recovery_ms.is_some_and(|ms| ms <= RECOVERY_MS);
        let with = |example: &Option<String>| {
            let example = example.clone().unwrap_or_default();
            move |complaint| format!("{complaint}: {example}")
        };
        let found = [
            some(injections, "injections, so nothing was tested"),
            some(self.grants, "grants, so nothing was tested"),
            some(refused, "refused writes, so no holder came too late"),
            none(overlaps, "grants while an earlier holder was still at work").map(with(&self.overlap)),
            none(self.lost_fenced, "updates lost in spite of the fence"),
            none(self.repeated_tokens, "fencing tokens given twice"),
            none(self.falling_tokens, "fencing tokens below an earlier one"),
            none(self.early_waits, "waits that gave up before their time"),
            none(self.late_waits, "acquires that ended after their limit").map(with(&self.latest)),
            (!recovered).then(|| format!("{scene}: a hot key was not granted within {RECOVERY_MS} ms")),
            none(self.leaks, "locks or managers left behind").map(with(&self.leak)),
            none(queues, "queues with somebody in them who is gone"),
        ];
        let troubles = self.troubles.iter().map(|trouble| format!("{scene}: {trouble}"));
        found.into_iter().flatten().chain(troubles).collect()
    }

    /// In one line, for who waits for the table.
    pub(super) fn line(&self) -> String {
        let Self { scene, grants, injections, .. } = self;
        let verdict = if self.complaints().is_empty() { "ok" } else { "FAILED" };
        format!("{scene:<24} {verdict}, {injections} injections, {grants} grants")
    }
}

/// All of them in one table, which is also Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header([
        "fault",
        "grants/s",
        "injections",
        "grants",
        "overlaps",
        "lost updates, no fence",
        "lost updates, fence",
        "refused writes",
        "tokens repeated or falling",
        "waits early or late",
        "worst recovery, ms",
        "leaks",
        "queues left",
        "verdict",
    ]);
    for row in rows {
        let tokens = row.repeated_tokens + row.falling_tokens;
        let waits = row.early_waits + row.late_waits;
        let numbers = [
            row.load,
            row.injections,
            row.grants,
            row.overlaps,
            row.lost_plain,
            row.lost_fenced,
            row.refused,
            tokens,
            waits,
        ];
        let mut cells = vec![row.scene.to_string()];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(row.recovery_ms.map_or_else(|| "never".into(), |ms| ms.to_string()));
        cells.extend([row.leaks, row.queues].map(|number| number.to_string()));
        cells.push(if row.complaints().is_empty() { "ok" } else { "FAILED" }.into());
        table.add_row(cells);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::scene::Store;
    use super::*;

    fn good(class: Class) -> Row {
        Row {
            scene: Scene { store: Store::Redis, class },
            load: 100,
            injections: 3,
            grants: 300,
            overlaps: 0,
            overlap: None,
            lost_plain: 7,
            lost_fenced: 0,
            refused: 7,
            repeated_tokens: 0,
            falling_tokens: 0,
            early_waits: 0,
            late_waits: 0,
            latest: None,
            recovery_ms: Some(RECOVERY_MS),
            leaks: 0,
            leak: None,
            queues: 0,
            troubles: Vec::new(),
        }
    }

    /// Rows that are bad in one way each.
    fn bad(class: Class) -> Vec<Row> {
        let bad: [fn(&mut Row); 11] = [
            |row| row.injections = 0,
            |row| row.grants = 0,
            |row| row.lost_fenced = 1,
            |row| row.repeated_tokens = 1,
            |row| row.falling_tokens = 1,
            |row| row.early_waits = 1,
            |row| row.late_waits = 1,
            |row| row.recovery_ms = Some(RECOVERY_MS + 1),
            |row| row.recovery_ms = None,
            |row| row.leaks = 1,
            |row| row.troubles.push("the store has failed".into()),
        ];
        let spoiled = |spoil: fn(&mut Row)| {
            let mut row = good(class);
            spoil(&mut row);
            row
        };
        bad.into_iter().map(spoiled).collect()
    }

    #[test]
    fn updates_lost_without_a_fence_are_shown_and_no_complaint() {
        for class in Scene::all().map(|scene| scene.class) {
            assert_eq!(good(class).complaints(), [""; 0]);
        }
        assert!(table(&[good(Class::Flushed)]).contains("| ok"));
    }

    #[test]
    fn whatever_is_wrong_fails_its_class() {
        for class in [Class::WorkersStopped, Class::FailedOver] {
            for row in bad(class) {
                assert_eq!(row.complaints().len(), 1, "{row:?}");
                assert!(table(&[row]).contains("FAILED"));
            }
        }
    }

    #[test]
    fn a_queue_is_a_complaint_where_everybody_could_leave_it() {
        let queueing = |class| Row { queues: 1, ..good(class) };
        assert_eq!(queueing(Class::Cancelled).complaints().len(), 1);
        assert!(queueing(Class::WorkersKilled).complaints().is_empty());
    }

    #[test]
    fn overlaps_are_a_complaint_where_no_data_is_lost() {
        let overlapping = |class| Row { overlaps: 1, ..good(class) };
        assert_eq!(overlapping(Class::Latency).complaints().len(), 1);
        assert!(overlapping(Class::ServerEmptied).complaints().is_empty());
    }

    #[test]
    fn without_faults_nothing_is_injected_and_only_stopped_workers_must_be_refused() {
        assert!(Row { injections: 0, ..good(Class::Baseline) }.complaints().is_empty());
        assert!(Row { refused: 0, ..good(Class::Latency) }.complaints().is_empty());
        assert_eq!(Row { refused: 0, ..good(Class::WorkersStopped) }.complaints().len(), 1);
    }
}
