//! What every answer carries, a refusal too: who served it, and leave for a page of another local instance to read it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::routes::Service;

const SERVED_BY: HeaderName = HeaderName::from_static("served-by");

pub(crate) async fn signed(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let origin = local_origin(request.headers());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let Ok(name) = HeaderValue::from_str(&service.instance.name) {
        headers.insert(SERVED_BY, name);
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after, served-by"),
        );
    }
    response
}

/// The `Origin`, if it is a page of this machine.
fn local_origin(headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let host_and_port = origin.to_str().ok()?.strip_prefix("http://")?;
    let (host, port) = host_and_port.rsplit_once(':').unwrap_or((host_and_port, "80"));
    (["127.0.0.1", "localhost"].contains(&host) && port.parse::<u16>().is_ok()).then(|| origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_may_read_answers() {
        let allowed = |origin: &'static str| {
            let headers = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
            local_origin(&headers).is_some()
        };
        assert!(allowed("http://127.0.0.1:3000"));
        assert!(allowed("http://localhost"));
        assert!(!allowed("http://localhost.example.com:80"));
        assert!(!allowed("http://example.com"));
        assert!(!allowed("https://localhost:3000"));
        assert!(!allowed("null"));
    }
}
