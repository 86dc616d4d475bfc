//! The shelves, and what is reserved of them. Nothing here locks: that is the matter of [`crate::reserve`].

use serde::Serialize;
use tokio_postgres::{GenericClient, Transaction};

use crate::error::ReserveError;

/// What somebody wants. The order's id is chosen by the client and is the same when it asks again.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) sku: String,
    pub(crate) id: String,
    pub(crate) quantity: i64,
}

/// What a writer has read before it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shelf {
    available: i64,
    /// What is reserved for this order already.
    reserved: Option<i64>,
}

impl Shelf {
    /// How much is left once `order` is served; `None` if it has been served before.
    pub(crate) fn left_after(self, order: &Order) -> Result<Option<i64>, ReserveError> {
        match self.reserved {
            Some(quantity) if quantity == order.quantity => Ok(None),
            Some(quantity) => Err(ReserveError::OtherQuantity { quantity }),
            None if order.quantity < 1 => Err(ReserveError::NoQuantity),
            None if order.quantity > self.available => {
                Err(ReserveError::TooFew { available: self.available })
            }
            None => Ok(Some(self.available - order.quantity)),
        }
    }
}

/// Reads what `order` is about.
pub(crate) async fn read(client: &impl GenericClient, order: &Order) -> Result<Shelf, ReserveError> {
    let shelf = "SELECT available, quantity FROM stock
        LEFT JOIN reservations ON reservations.sku = stock.sku AND order_id = $2 WHERE stock.sku = $1";
    let row = client.query_opt(shelf, &[&order.sku, &order.id]).await?.ok_or(ReserveError::UnknownSku)?;
    Ok(Shelf { available: row.try_get(0)?, reserved: row.try_get(1)? })
}

/// Writes back what was made of what was read.
pub(crate) async fn write(
    transaction: &Transaction<'_>,
    order: &Order,
    left: i64,
) -> Result<(), ReserveError> {
    transaction.execute("UPDATE stock SET available = $2 WHERE sku = $1", &[&order.sku, &left]).await?;
    let reservation = "INSERT INTO reservations (sku, order_id, quantity) VALUES ($1, $2, $3)";
    transaction.execute(reservation, &[&order.sku, &order.id, &order.quantity]).await?;
    Ok(())
}

/// A shelf as the world may see it.
#[derive(Debug, Serialize)]
pub(crate) struct Stock {
    available: i64,
    /// The sum over all reservations.
    reserved: i64,
    orders: Vec<String>,
}

pub(crate) async fn stock(client: &impl GenericClient, sku: &str) -> Result<Stock, ReserveError> {
    let stock = "SELECT available, coalesce(sum(quantity), 0)::bigint,
        coalesce(array_agg(order_id ORDER BY order_id) FILTER (WHERE order_id IS NOT NULL), '{}')
        FROM stock LEFT JOIN reservations USING (sku) WHERE sku = $1 GROUP BY sku";
    let row = client.query_opt(stock, &[&sku]).await?.ok_or(ReserveError::UnknownSku)?;
    Ok(Stock { available: row.try_get(0)?, reserved: row.try_get(1)?, orders: row.try_get(2)? })
}

/// A new shelf. One that is there stays as it is: overwriting it would be one more writer past the fence.
pub(crate) async fn add(client: &impl GenericClient, sku: &str, available: i64) -> Result<(), ReserveError> {
    let shelf = "INSERT INTO stock (sku, available) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    client.execute(shelf, &[&sku, &available]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(available: i64, reserved: Option<i64>, quantity: i64) -> Result<Option<i64>, ReserveError> {
        let order = Order { sku: "apple".into(), id: "1".into(), quantity };
        Shelf { available, reserved }.left_after(&order)
    }

    #[test]
    fn an_order_takes_what_it_asks_for_once_and_no_more_than_there_is() {
        assert!(matches!(left(10, None, 3), Ok(Some(7))));
        assert!(matches!(left(3, None, 3), Ok(Some(0))));
        assert!(matches!(left(2, None, 3), Err(ReserveError::TooFew { available: 2 })));
        assert!(matches!(left(2, None, 0), Err(ReserveError::NoQuantity)));
        assert!(matches!(left(0, Some(3), 3), Ok(None)));
        assert!(matches!(left(9, Some(3), 4), Err(ReserveError::OtherQuantity { quantity: 3 })));
    }
}
