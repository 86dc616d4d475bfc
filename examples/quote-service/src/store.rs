//! The quotes, in memory. What matters here is [`Store::write`]: it refuses a writer whose lease is over.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// One tenant's quote, as it was last written.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Quote {
    pub(crate) tenant: String,
    pub(crate) id: String,
    /// Counts the writes. Two recalculations at once would both read the same one, and one write would be lost.
    pub(crate) revision: u64,
    pub(crate) price_cents: u64,
    /// The token of the lease it was written under.
    pub(crate) fencing: u64,
    pub(crate) written_by: String,
}

impl Quote {
    /// What follows `before`; the price is made up.
    pub(crate) fn after(
        before: Option<&Self>,
        tenant: &str,
        id: &str,
        fencing: u64,
        written_by: &str,
    ) -> Self {
        let revision = before.map_or(0, |quote| quote.revision) + 1;
        let seed: u64 = tenant.bytes().chain(id.bytes()).map(u64::from).sum();
        let price_cents = 10_000 + (seed * 7_919 + revision * 1_237) % 90_000;
        Self {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            revision,
            price_cents,
            fencing,
            written_by: written_by.to_owned(),
        }
    }
}

/// A write under an older lease than the one that wrote last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stale {
    /// The token that the refused writer brought.
    pub(crate) brought: u64,
    /// The token of the last write.
    pub(crate) stored: u64,
}

/// All quotes of this process.
#[derive(Debug, Default)]
pub(crate) struct Store {
    quotes: Mutex<HashMap<(String, String), Quote>>,
}

impl Store {
    pub(crate) fn read(&self, tenant: &str, id: &str) -> Option<Quote> {
        let quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
        quotes.get(&(tenant.to_owned(), id.to_owned())).cloned()
    }

    /// Compares and writes in one step. In a database: `UPDATE .. SET .., fencing = $new WHERE .. AND fencing <= $new`.
    ///
    /// Equal tokens pass: one lease may write more than once.
    pub(crate) fn write(&self, quote: Quote) -> Result<(), Stale> {
        let mut quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (quote.tenant.clone(), quote.id.clone());
        match quotes.get(&name) {
            Some(last) if last.fencing > quote.fencing => {
                Err(Stale { brought: quote.fencing, stored: last.fencing })
            }
            _ => {
                quotes.insert(name, quote);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_under_an_older_lease_is_refused_and_changes_nothing() {
        let store = Store::default();
        let newer = Quote::after(None, "acme", "42", 8, "b");
        let older = Quote::after(None, "acme", "42", 7, "a");
        assert!(store.write(newer.clone()).is_ok());
        assert!(matches!(store.write(older), Err(Stale { brought: 7, stored: 8 })));
        assert_eq!(store.read("acme", "42").map(|quote| quote.fencing), Some(8));
        assert!(store.write(newer).is_ok(), "one lease may write twice");
    }
}
