//! Right attributes, and what a mutation makes of them.

/// Right attributes for [`ITEM`], whose pieces stand between spaces.
const ATTRIBUTES: [&str; 3] = [
    r#"key = "q:{a}" , ttl_ms = 10_000 , on_contention = wait( timeout_ms = 5 ) , renew = auto( max_ms = 20_000 ) , lease = held , name = "n""#,
    r#"key = "q:{a}" , ttl_ms = TTL , on_contention = skip( | busy | Ok( 1 ) ) , on_error = | error | Err( error ) , manager = & locks , crate = :: lockrt , min_hold_ms = 5 , on_lost = report"#,
    r#"ttl_ms = 10_000 , key = concat!( "q:" , stringify!( b ) , ":{a}" ) , on_contention = skip( Ok( 1 ) ) , renew = off , on_cancel = hold , release = started , fencing = required , lease = held ,"#,
];

/// A function for these attributes.
pub(super) const ITEM: &str = "async fn f(a: u8) -> Result<u8, E> { Ok(a) }";

/// Pieces of attributes, right and wrong, that a mutation puts in.
const PIECES: &str = r#"
    key ttl_ms on_contention renew on_lost lease manager name crate on_error on_cancel release min_hold_ms fencing
    hold started required cancel report fail skip wait timeout_ms forever auto max_ms off held TTL colour
    = , ( ) { } [ ] :: : & < > # - ! ? . .. => == | || |error| |busy| Err(error) wait( skip( auto( concat!( stringify!(a)
    move async self r#type 'a 'a' 0 10_000 1.5 10s -1 99999999999999999999 true b"q" "n" "" "10s" "skip" "k" "q:{a}"
    "{a:hash}" "q:{tenat}" "{a" "q:}" "q%" "é" "{a}{a}" "{a:?}" "{a?}" "{$a}" "{{a}}" "{7}" "{}" "{a.now()}"
    "{self.b}{c}" "{type}:{" "{|x|x}:{'}'}" "q:{self}:{_}:{super}:{type}"
"#;

pub(super) fn attributes() -> Vec<Vec<&'static str>> {
    ATTRIBUTES.iter().map(|attribute| attribute.split(' ').collect()).collect()
}

pub(super) fn pieces() -> Vec<&'static str> {
    PIECES.split_whitespace().collect()
}

/// How many mistakes a piece has by itself, beside the one of standing where it stands.
pub(super) fn mistakes_in(piece: &str) -> usize {
    match piece {
        r#""q:{self}:{_}:{super}:{type}""# => 4,
        piece if piece.contains('{') && piece.starts_with('"') && piece != "\"q:{a}\"" => 2,
        _ => 0,
    }
}

/// Random numbers that are the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, sides: usize) -> usize {
        // Knuth's linear congruential generator, of which the upper bits are good.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    pub(super) fn of<'a>(&mut self, pieces: &[&'a str]) -> &'a str {
        pieces[self.below(pieces.len())]
    }

    /// A right attribute of which so many pieces were exchanged, doubled or left out, and how many mistakes that makes.
    pub(super) fn attribute(&mut self, changes: usize) -> (String, usize) {
        let attributes = attributes();
        let mut attribute = attributes[self.below(attributes.len())].clone();
        let mut mistakes = changes;
        for _ in 0..changes {
            let at = self.below(attribute.len());
            let piece = self.of(&pieces());
            match self.below(4) {
                0 => attribute.insert(at, piece),
                1 => drop(attribute.remove(at)),
                _ => attribute[at] = piece,
            }
            mistakes += mistakes_in(piece);
        }
        (attribute.join(" "), mistakes)
    }
}
