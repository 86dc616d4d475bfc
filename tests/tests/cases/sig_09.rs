// sig 09
// kind: axum; JSON list argument; the acting user is found inside the body from Parts
// key wished: user id (not an argument at all); a list of ids is: "notify:{updates}" needs several locks
// contention wished: wait
// trap: Vec in a key: order, duplicates and overlap (ambiguity A7)
use axum::Json;
use axum::http::request::Parts;
#[derive(serde::Deserialize)]
pub struct Toggle {
    pub crate_id: i32,
    pub on: bool,
}
#[derive(Clone)]
pub struct AppState;
pub struct Boxed;

// NO-ATTRIBUTE as a single key; a multi-key form is wanted: keys = updates.iter().map(|u| u.crate_id)
pub async fn update_notifications(
    app: AppState,
    parts: Parts,
    Json(updates): Json<Vec<Toggle>>,
) -> Result<(), Boxed> {
    let _ = (app, parts);
    for Toggle { crate_id, on } in updates {
        if crate_id == 0 && on {
            return Err(Boxed);
        }
    }
    Ok(())
}
