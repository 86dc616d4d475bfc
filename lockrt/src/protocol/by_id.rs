//! Claims by their number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::protocol::kept::Id;

/// Room for so many claims is not given back.
const SPARSE: usize = 1_024;

/// A map whose keys are counted up by this process: nobody chooses them, so they need no hash that withstands it.
pub(crate) type ById<T> = HashMap<Id, T, BuildHasherDefault<Spread>>;

/// Spreads consecutive numbers over the whole word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio; the product's upper half is the better one.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// After many claims few are left: the room of the many is given back.
pub(crate) fn shrink<T>(map: &mut ById<T>) {
    if map.capacity() > SPARSE && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn consecutive_numbers_go_to_different_places_of_a_table() {
        let build = BuildHasherDefault::<Spread>::default();
        let hashes: Vec<u64> = (1..=1_024_u64).map(|id| build.hash_one(id)).collect();
        // A table looks at the lowest bits for the place, and at the highest for what stands there.
        let places: HashSet<u64> = hashes.iter().map(|hash| hash % 2_048).collect();
        let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(places.len() > 600, "{}", places.len());
        assert_eq!(tags.len(), 128);
    }

    #[test]
    fn a_table_that_has_become_empty_gives_its_room_back() {
        let mut map: ById<u64> = (0..100_000).map(|id| (id, id)).collect();
        map.retain(|id, _| *id < 10);
        shrink(&mut map);
        assert!(map.capacity() < SPARSE, "{}", map.capacity());
        assert_eq!(map.get(&7), Some(&7));
    }
}
