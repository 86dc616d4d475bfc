// sig 35
// kind: tonic; argument named _request because the method is a stub
// key wished: constant "flight:poll"
// contention wished: skip
use tonic::{Request, Response, Status};
pub struct Descriptor;
#[tonic::async_trait]
pub trait Flight {
    async fn poll(&self, _request: Request<Descriptor>) -> Result<Response<()>, Status>;
}
pub struct F;
#[tonic::async_trait]
impl Flight for F {
    #[lockrt::distributed_lock(key = "flight:poll", ttl_ms = 1_000, on_contention = skip(Ok(Response::new(()))))]
    async fn poll(&self, _request: Request<Descriptor>) -> Result<Response<()>, Status> {
        Err(Status::unimplemented("poll"))
    }
}
