//! Numbers as text, without the machinery of `fmt`: a lock writes several of them, each time.

/// As many digits as a number of 64 bits has.
const MOST: usize = 20;

/// A number in digits.
pub(crate) struct Digits {
    room: [u8; MOST],
    from: usize,
}

impl Digits {
    pub(crate) fn decimal(number: u64) -> Self {
        Self::of::<10>(number, 1)
    }

    /// Lower-case hexadecimal, with zeros ahead if there are fewer than `least` digits.
    pub(crate) fn hex(number: u64, least: usize) -> Self {
        Self::of::<16>(number, least)
    }

    fn of<const BASE: u64>(mut number: u64, least: usize) -> Self {
        let (mut room, mut from) = ([b'0'; MOST], MOST);
        while number > 0 {
            from -= 1;
            room[from] = b"0123456789abcdef"[usize::try_from(number % BASE).unwrap_or_default()];
            number /= BASE;
        }
        Self { room, from: from.min(MOST - least.min(MOST)) }
    }

    pub(crate) fn as_str(&self) -> &str {
        // Digits are text.
        std::str::from_utf8(&self.room[self.from..]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_fmt() {
        for number in [0, 1, 9, 10, 15, 16, 255, 1_000_000_007, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(Digits::decimal(number).as_str(), format!("{number}"));
            assert_eq!(Digits::hex(number, 1).as_str(), format!("{number:x}"));
            assert_eq!(Digits::hex(number, 8).as_str(), format!("{number:08x}"));
        }
    }
}
