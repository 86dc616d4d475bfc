//! The routes. Three of them do the same work on a quote and differ in what happens when somebody else is at it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use lockrt::{FencingToken, Lease, distributed_lock};
use serde::Serialize;

use crate::answer;
use crate::error::QuoteError;
use crate::history::{History, Outcome, Work};
use crate::instance::Instance;
use crate::store::{Quote, Store};

/// More than twice the ttl of [`pause`], so that the next holder has written when the paused one wakes.
const PAUSE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) instance: Instance,
    pub(crate) store: Store,
    pub(crate) history: History,
}

/// The answer of a request that had the lock, or that was skipped.
#[derive(Debug, Serialize)]
struct Reply {
    ran: bool,
    served_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote: Option<Quote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
}

impl Reply {
    fn skipped(service: &Service) -> Self {
        Self { ran: false, served_by: service.instance.name.clone(), quote: None, work: None }
    }
}

pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/instance", get(instance))
        .route("/history", get(history))
        .route("/quotes/{tenant}/{id}", get(read))
        .route("/quotes/{tenant}/{id}/recalculate", post(recalculate))
        .route("/quotes/{tenant}/{id}/refresh", post(refresh))
        .route("/quotes/{tenant}/{id}/reindex", post(reindex))
        .route("/quotes/{tenant}/{id}/pause", post(pause))
        .layer(middleware::from_fn_with_state(Arc::clone(&service), answer::signed))
        .with_state(service)
}

// The four routes below lock one key, since they write one thing: the tokens that the store compares must come from one sequence.

/// Somebody else is at it: 409 at once, with `Retry-After`.
#[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 5_000, on_contention = fail, lease = lease, fencing = required)]
async fn recalculate(
    Path((tenant, id)): Path<(String, String)>,
    State(service): State<Arc<Service>>,
) -> Result<Json<Reply>, QuoteError> {
    service.work("recalculate", &tenant, &id, lease, service.instance.work()).await
}

/// Somebody else is at it: wait for them, for two seconds at most.
#[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000), lease = lease, fencing = required)]
async fn refresh(
    Path((tenant, id)): Path<(String, String)>,
    State(service): State<Arc<Service>>,
) -> Result<Json<Reply>, QuoteError> {
    service.work("refresh", &tenant, &id, lease, service.instance.work()).await
}

/// Somebody else is at it: then nothing is left to do, and that is fine.
#[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 5_000, on_contention = skip(Ok(Json(Reply::skipped(&service)))), lease = lease, fencing = required)]
async fn reindex(
    Path((tenant, id)): Path<(String, String)>,
    State(service): State<Arc<Service>>,
) -> Result<Json<Reply>, QuoteError> {
    service.work("reindex", &tenant, &id, lease, service.instance.work()).await
}

/// A holder that sleeps past its lease and writes all the same: what a long pause of the process would do.
/// `on_lost = report` lets the body go on; the default would have dropped it at the deadline.
#[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 1_500, on_contention = fail, on_lost = report, lease = lease, fencing = required)]
async fn pause(
    Path((tenant, id)): Path<(String, String)>,
    State(service): State<Arc<Service>>,
) -> Result<Json<Reply>, QuoteError> {
    service.work("pause", &tenant, &id, lease, PAUSE).await
}

impl Service {
    /// Reads the quote, works on it for a while, writes it under the lease's token.
    async fn work(
        &self,
        operation: &'static str,
        tenant: &str,
        id: &str,
        lease: &Lease,
        duration: Duration,
    ) -> Result<Json<Reply>, QuoteError> {
        let name = &self.instance.name;
        let fencing = lease.fencing().map_or(0, FencingToken::get);
        let working = self.history.begin(operation, tenant, id, fencing, name);
        let before = self.store.read_to_change(lease, tenant, id)?;
        tokio::time::sleep(duration).await;
        let quote = Quote::after(before.as_ref(), tenant, id, fencing, name);
        if let Err(refused) = self.store.write(lease, quote.clone()) {
            working.end(Outcome::Stale);
            tracing::warn!(error = %refused, "a stale write was refused");
            return Err(refused.into());
        }
        let work = working.end(Outcome::Wrote);
        Ok(Json(Reply { ran: true, served_by: name.clone(), quote: Some(quote), work: Some(work) }))
    }
}

async fn read(
    Path((tenant, id)): Path<(String, String)>,
    State(service): State<Arc<Service>>,
) -> Result<Json<Quote>, QuoteError> {
    service.store.read(&tenant, &id).map(Json).ok_or(QuoteError::Unknown)
}

async fn history(State(service): State<Arc<Service>>) -> Json<Vec<Work>> {
    Json(service.history.all())
}

async fn instance(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], Json(&service.instance).into_response())
}

async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
