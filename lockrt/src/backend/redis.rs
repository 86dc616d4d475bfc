//! One Redis server.
/// One Redis server.
#[derive(Debug)]
pub struct Redis;
