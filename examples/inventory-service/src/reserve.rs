//! One reservation in three ways. Each reads what is there, thinks, and writes back what it made of it; they differ in what
//! becomes of a holder that stands still between the two for longer than its lease.

use std::time::Duration;

use lockrt::fence::postgres::PostgresFence;
use lockrt::postgres::lock_in;
use lockrt::{FencingToken, LockKey, LockPolicy, distributed_lock};
use serde::Serialize;

use crate::database::Database;
use crate::error::ReserveError;
use crate::jobs::Run;
use crate::pause::Pause;
use crate::stock::{self, Order};

/// Short, for the sake of `--chaos`. Yours is longer than the longest reservation.
const TTL_MS: u64 = 2_000;
/// How long a reservation waits for its turn.
const TURN: Duration = Duration::from_secs(5);

/// How this instance reserves. All instances on one database must do it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Naive,
    Fenced,
    Transaction,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Naive, Self::Fenced, Self::Transaction];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Fenced => "fenced",
            Self::Transaction => "transaction",
        }
    }
}

/// What the three ways need.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) database: Database,
    pub(crate) instance: String,
    pub(crate) pause: Pause,
}

/// The answer: reserved now, or when this order was sent before.
#[derive(Debug, Serialize)]
pub(crate) struct Reserved {
    order: String,
    quantity: i64,
    /// Whether this is the answer to a request that was repeated.
    before: bool,
    instance: String,
}

/// The lock alone: shows what goes wrong. `report` lets a body end that has lost its lease. The default would notice this
/// very pause, at the next await, and not one of a moment later, when the commit is on its way.
#[distributed_lock(key = "stock:{order.sku}", ttl_ms = TTL_MS, on_contention = wait(timeout_ms = 5_000), on_lost = report, lease = lease)]
async fn naive(shop: &Shop, order: &Order) -> Result<Reserved, ReserveError> {
    let mut client = shop.database.connect().await?;
    let run = shop.run(order, lease.fencing());
    let Some(left) = stock::read(&client, order).await?.left_after(order)? else {
        return Ok(shop.reserved(order, true));
    };
    run.begin(&client).await?;
    shop.pause.here(); // the long work
    let transaction = client.transaction().await?;
    stock::write(&transaction, order, left).await?;
    run.done(&transaction).await?;
    transaction.commit().await?;
    Ok(shop.reserved(order, false))
}

/// The lock and the fence: whoever came too late is refused by the database. `report`, since the fence decides here, and
/// its refusal names both tokens; the default would drop the body on the way and say `Lost`.
#[distributed_lock(key = "stock:{order.sku}", ttl_ms = TTL_MS, on_contention = wait(timeout_ms = 5_000), on_lost = report, lease = lease, fencing = required)]
async fn fenced(shop: &Shop, order: &Order) -> Result<Reserved, ReserveError> {
    let mut client = shop.database.connect().await?;
    let run = shop.run(order, lease.fencing());
    let fence = PostgresFence::new(lease.key().as_str())?;
    fence.register(&client, lease).await?; // before the first read
    let Some(left) = stock::read(&client, order).await?.left_after(order)? else {
        return Ok(shop.reserved(order, true));
    };
    run.begin(&client).await?;
    shop.pause.here(); // the long work
    let transaction = client.transaction().await?;
    if let Err(refusal) = fence.guard(&transaction, lease).await {
        drop(transaction); // which rolls it back
        if refusal.is_stale() {
            let _ = run.refused(&client).await; // the refusal counts, written down or not
        }
        return Err(refusal.into());
    }
    stock::write(&transaction, order, left).await?;
    run.done(&transaction).await?;
    transaction.commit().await?;
    Ok(shop.reserved(order, false))
}

/// No lease: the lock is part of the transaction that writes, and nobody can come too late. For work of milliseconds.
async fn in_transaction(shop: &Shop, order: &Order) -> Result<Reserved, ReserveError> {
    static STOCK: LockPolicy = LockPolicy::new(Duration::from_millis(TTL_MS)).named("stock").wait(TURN);
    let mut client = shop.database.connect().await?;
    let run = shop.run(order, None);
    let transaction = client.transaction().await?;
    let key = LockKey::of("stock:").part(&order.sku).build()?;
    lock_in(&transaction, &key, &STOCK).await?; // before the first read
    let Some(left) = stock::read(&transaction, order).await?.left_after(order)? else {
        return Ok(shop.reserved(order, true));
    };
    run.begin(&transaction).await?;
    shop.pause.here();
    stock::write(&transaction, order, left).await?;
    run.done(&transaction).await?;
    transaction.commit().await?; // and unlocks
    Ok(shop.reserved(order, false))
}

impl Shop {
    /// Reserves, once however often this order is sent.
    pub(crate) async fn reserve(&self, way: Way, order: &Order) -> Result<Reserved, ReserveError> {
        match way {
            Way::Naive => naive(self, order).await,
            Way::Fenced => fenced(self, order).await,
            Way::Transaction => in_transaction(self, order).await,
        }
    }

    fn run(&self, order: &Order, token: Option<FencingToken>) -> Run {
        let job = format!("reserve:{}", order.sku);
        Run { job, id: order.id.clone(), instance: self.instance.clone(), token }
    }

    fn reserved(&self, order: &Order, before: bool) -> Reserved {
        Reserved {
            order: order.id.clone(),
            quantity: order.quantity,
            before,
            instance: self.instance.clone(),
        }
    }
}
