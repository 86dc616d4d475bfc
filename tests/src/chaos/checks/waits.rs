//! Acquires that end too early or too late.

use super::super::history::{Stall, Wait};
use super::super::record::End;

/// What a loaded machine may add to an end.
const SLACK_NS: u64 = 1_000_000_000;

/// How many waits said `Contended` before their time was up.
pub(in super::super) fn early(waits: &[Wait]) -> u64 {
    let is_early = |wait: &&Wait| {
        wait.waits
            && wait.end == End::Contended
            && wait.ended_ns.saturating_sub(wait.asked_ns) < wait.limit_ns
    };
    waits.iter().filter(is_early).count() as u64
}

/// By how much each acquire that ended after its limit was late, in nanoseconds. The time that its
/// process stood still is not counted.
pub(in super::super) fn late(waits: &[Wait], stalls: &[Stall]) -> Vec<u64> {
    let lateness = |wait: &Wait| {
        let stood =
            |stall: &Stall| stall.to_ns.min(wait.ended_ns).saturating_sub(stall.from_ns.max(wait.asked_ns));
        let stood: u64 = stalls.iter().filter(|stall| stall.place == wait.place).map(stood).sum();
        wait.ended_ns.saturating_sub(wait.asked_ns).saturating_sub(wait.limit_ns + stood)
    };
    waits.iter().map(lateness).filter(|late_ns| *late_ns > SLACK_NS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wait(for_ms: u64, end: End) -> Wait {
        let (asked_ns, ended_ns) = (1_000 * MS, (1_000 + for_ms) * MS);
        Wait { place: 2, asked_ns, ended_ns, limit_ns: 300 * MS, waits: true, end }
    }

    fn stall(place: usize, from_ms: u64, to_ms: u64) -> Stall {
        Stall { place, from_ns: from_ms * MS, to_ns: to_ms * MS }
    }

    #[test]
    fn a_wait_that_gives_up_too_soon_is_early() {
        assert_eq!(early(&[wait(299, End::Contended), wait(300, End::Contended)]), 1);
    }

    #[test]
    fn who_does_not_wait_or_gets_the_lock_may_end_at_any_time() {
        let tried = Wait { waits: false, ..wait(1, End::Contended) };
        assert_eq!(early(&[tried, wait(1, End::Granted), wait(1, End::Unavailable)]), 0);
    }

    #[test]
    fn a_wait_past_its_deadline_is_late_however_it_ends() {
        let waits = [End::Granted, End::Contended, End::Unavailable].map(|end| wait(1_301, end));
        assert_eq!(late(&waits, &[]), [1_001 * MS; 3]);
        assert_eq!(late(&[wait(1_299, End::Contended)], &[]), [0; 0]);
    }

    #[test]
    fn a_process_that_stood_still_has_that_time_too_and_no_more() {
        let waits = [wait(2_250, End::Contended)];
        assert_eq!(late(&waits, &[stall(2, 1_000, 2_000)]), [0; 0]);
        assert_eq!(late(&waits, &[stall(3, 1_000, 2_000)]), [1_950 * MS], "that was another process");
        assert_eq!(late(&waits, &[stall(2, 0, 1_900)]), [1_050 * MS], "only 900 ms of that were waited");
    }
}
