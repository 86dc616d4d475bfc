//! What came to pass in many runs, to see that they are not idle.

use crate::protocol::simulation::world::World;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) grants: u64,
    pub(super) renewals: u64,
    pub(super) refusals: u64,
    pub(super) losses: u64,
    pub(super) silent: u64,
    pub(super) abandoned: u64,
    pub(super) stale_writes: u64,
    pub(super) lost_data: u64,
    pub(super) offers: u64,
    pub(super) declined: u64,
}

impl Tally {
    pub(super) fn add(&mut self, world: &World) {
        for caller in &world.callers {
            self.refusals += u64::from(caller.seen.refusals);
            self.losses += u64::from(caller.seen.losses);
            self.abandoned += u64::from(caller.seen.abandoned);
        }
        let checks = &world.checks;
        self.grants += checks.grants;
        self.renewals += checks.renewals;
        self.silent += checks.silent;
        self.stale_writes += checks.refused_writes;
        self.lost_data += u64::from(checks.data_lost);
        self.offers += checks.offers;
        self.declined += checks.declined;
    }
}
