//! Everything that is left to chance, from one seed.

/// The generator `SplitMix64` (<https://prng.di.unimi.it/splitmix64.c>): small, and good enough to
/// draw faults.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `low` up to, not including, `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low).max(1)
    }

    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.roll() % 1_000 < permille
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.between(0, len.try_into().unwrap())).unwrap()
    }
}
