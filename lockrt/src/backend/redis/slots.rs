//! Cluster slots, and the number whose slot is a given one.

use once_cell::sync::Lazy;

/// How many slots a Redis Cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key without braces, as `CLUSTER KEYSLOT` gives it.
pub(super) fn slot_of(key: &str) -> u16 {
    crc16(key.as_bytes()) % SLOTS
}

/// The smallest decimal number whose slot is `slot`; between braces in a key it puts that key
/// there (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>).
pub(super) fn number_in(slot: u16) -> u32 {
    static NUMBERS: Lazy<Vec<u32>> = Lazy::new(smallest_numbers);
    NUMBERS[usize::from(slot % SLOTS)]
}

/// The smallest number of each slot; those below 109,758 reach every slot.
fn smallest_numbers() -> Vec<u32> {
    let mut numbers = vec![u32::MAX; usize::from(SLOTS)];
    let mut missing = numbers.len();
    let mut number = 0_u32;
    while missing > 0 {
        let place = &mut numbers[usize::from(slot_of(&number.to_string()))];
        if *place == u32::MAX {
            *place = number;
            missing -= 1;
        }
        number += 1;
    }
    numbers
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, most significant bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) ^ u16::from(*byte))])
}

const CRC16: [u16; 256] = {
    let mut table = [0_u16; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of("foo"), 12_182);
    }

    #[test]
    fn every_slot_has_a_number_and_the_largest_is_109_757() {
        let numbers: Vec<u32> = (0..SLOTS).map(number_in).collect();
        assert_eq!(numbers.iter().max(), Some(&109_757));
        for (slot, number) in (0..SLOTS).zip(numbers) {
            assert_eq!(slot_of(&number.to_string()), slot);
        }
    }
}
