//! The routes.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::Deserialize;

use crate::error::ReserveError;
use crate::jobs::{self, Execution};
use crate::reserve::{Reserved, Shop, Way};
use crate::stock::{self, Order, Stock};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) shop: Shop,
    pub(crate) way: Way,
}

#[derive(Debug, Deserialize)]
struct Delivery {
    available: u32,
}

#[derive(Debug, Deserialize)]
struct Wish {
    quantity: u32,
}

#[derive(Debug, Deserialize)]
struct Filter {
    job: Option<String>,
}

pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/stock/{sku}", get(read).put(add))
        .route("/stock/{sku}/orders/{order}", put(reserve))
        .route("/jobs", get(jobs))
        .with_state(service)
}

/// The order's id is in the path, and a PUT may be sent again: after a 409, a 503 or silence.
async fn reserve(
    State(service): State<Arc<Service>>,
    Path((sku, id)): Path<(String, String)>,
    Json(Wish { quantity }): Json<Wish>,
) -> Result<Json<Reserved>, ReserveError> {
    let order = Order { sku, id, quantity: quantity.into() };
    service.shop.reserve(service.way, &order).await.map(Json)
}

async fn add(
    State(service): State<Arc<Service>>,
    Path(sku): Path<String>,
    Json(Delivery { available }): Json<Delivery>,
) -> Result<StatusCode, ReserveError> {
    let client = service.shop.database.connect().await?;
    stock::add(&client, &sku, available.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn read(
    State(service): State<Arc<Service>>,
    Path(sku): Path<String>,
) -> Result<Json<Stock>, ReserveError> {
    let client = service.shop.database.connect().await?;
    stock::stock(&client, &sku).await.map(Json)
}

async fn jobs(
    State(service): State<Arc<Service>>,
    Query(Filter { job }): Query<Filter>,
) -> Result<Json<Vec<Execution>>, ReserveError> {
    let client = service.shop.database.connect().await?;
    Ok(Json(jobs::last(&client, job.as_deref()).await?))
}
