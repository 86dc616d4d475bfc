// sig 34
// kind: tonic; server streaming: returns a stream type of Self; argument is a Streaming body
// key wished: "area:{request.get_ref().area}"
// contention wished: Status::resource_exhausted
// trap: the function returns when the stream STARTS: the lock would be released before the first item is sent (same for axum Sse and Body streams)
use std::pin::Pin;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status};
pub struct Area {
    pub area: u64,
}
#[tonic::async_trait]
pub trait Guide {
    type ListStream: Stream<Item = Result<u64, Status>> + Send + 'static;
    async fn list(&self, request: Request<Area>) -> Result<Response<Self::ListStream>, Status>;
}
pub struct Svc;
#[tonic::async_trait]
impl Guide for Svc {
    type ListStream = Pin<Box<dyn Stream<Item = Result<u64, Status>> + Send + 'static>>;

    #[lockrt::distributed_lock(key = "area:{request.get_ref().area}", ttl_ms = 10_000, on_contention = fail)]
    async fn list(&self, request: Request<Area>) -> Result<Response<Self::ListStream>, Status> {
        let area = request.into_inner().area;
        let items: Vec<Result<u64, Status>> = vec![Ok(area)];
        Ok(Response::new(Box::pin(tonic::codegen::tokio_stream::iter(items))))
    }
}
