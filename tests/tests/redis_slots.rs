//! The fence key of a lock lies in the lock's cluster slot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashSet;
use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, Redis};
use lockrt_tests::{Dice, RedisServer, granted, key};
use redis::AsyncCommands as _;

#[tokio::test]
async fn lock_and_fence_share_their_slot_as_the_server_counts_it() {
    let server = RedisServer::start();
    // Only a server in cluster mode counts slots.
    let cluster = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let (client, mut raw, mut counter) =
        (Redis::from_url(&server.url()).unwrap(), server.raw().await, cluster.raw().await);
    let mut slot_of = async |name: &str| -> u16 {
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(name).query_async(&mut counter).await.unwrap()
    };
    let (mut dice, mut slots) = (Dice::new(7), HashSet::new());
    for round in 0..400_u64 {
        let length = usize::try_from(dice.within(1..60)).unwrap();
        let text: String = (0..length)
            .map(|_| char::from_u32(u32::try_from(dice.within(33..0x2FF)).unwrap()).unwrap_or('x'))
            .collect();
        let owner = claim(&key(&format!("{text}{round}")), Duration::from_secs(60));
        granted(&client, &owner).await;
        let fences: Vec<String> = raw.keys("*:fencing").await.unwrap();
        let [fence] = &fences[..] else { panic!("one fence key, not {fences:?}") };
        let slot = slot_of(owner.key().as_str()).await;
        assert_eq!(slot, slot_of(fence).await, "{fence} is not in slot {slot}");
        slots.insert(slot);
        client.release(&owner).await.unwrap();
        let () = raw.del(fence).await.unwrap();
    }
    assert!(slots.len() > 350, "only {} slots were tried", slots.len());
}
