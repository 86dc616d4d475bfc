//! The quotes, in memory. What matters here is [`Store::write`]: it refuses a writer whose lease is over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockrt::Lease;
use lockrt::fence::{Fence, FenceError};
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

/// All quotes of this process.
#[derive(Debug, Default)]
pub(crate) struct Store {
    quotes: Mutex<HashMap<(String, String), Quote>>,
    fence: Fence,
}

impl Store {
    pub(crate) fn read(&self, tenant: &str, id: &str) -> Option<Quote> {
        self.quotes().get(&(tenant.to_owned(), id.to_owned())).cloned()
    }

    /// Reads what is to be changed. Without the registration a paused holder that wakes now could still write,
    /// and this one would write over it what it made of the old quote.
    pub(crate) fn read_to_change(
        &self,
        lease: &Lease,
        tenant: &str,
        id: &str,
    ) -> Result<Option<Quote>, FenceError> {
        self.fence.register(lease.key().as_str(), lease)?;
        Ok(self.read(tenant, id))
    }

    /// Compares tokens and writes, in one step. In a database: `UPDATE .. SET .., fencing = $new WHERE .. AND fencing <= $new`.
    pub(crate) fn write(&self, lease: &Lease, quote: Quote) -> Result<(), FenceError> {
        let name = (quote.tenant.clone(), quote.id.clone());
        self.fence.write(lease.key().as_str(), lease, || self.quotes().insert(name, quote)).map(drop)
    }

    fn quotes(&self) -> MutexGuard<'_, HashMap<(String, String), Quote>> {
        self.quotes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
