// sig 32
// kind: tonic; method in `#[tonic::async_trait] impl Service for X`; #[instrument(.., err)] on the method; body wrapped in another helper
// key wished: "wallet:{request.get_ref().wallet_name}"
// contention wished: Status::aborted / unavailable (retryable)
// trap: #[tonic::async_trait] runs FIRST: the lock macro sees `fn .. -> Pin<Box<dyn Future>>`, not `async fn`
use tonic::{Request, Response, Status};
pub struct NewAddress {
    pub wallet_name: String,
    pub external_id: Option<String>,
}
pub struct Address {
    pub address: String,
}
#[tonic::async_trait]
pub trait BriaApi {
    async fn new_address(&self, request: Request<NewAddress>) -> Result<Response<Address>, Status>;
}
pub struct Api {
    app: String,
}

#[tonic::async_trait]
impl BriaApi for Api {
    #[tracing::instrument(name = "api.new_address", skip_all, err)]
    #[lockrt::distributed_lock(key = "wallet:{request.get_ref().wallet_name}", ttl_ms = 10_000, on_contention = fail)]
    async fn new_address(&self, request: Request<NewAddress>) -> Result<Response<Address>, Status> {
        let NewAddress { wallet_name, external_id } = request.into_inner();
        external_id.ok_or_else(|| Status::invalid_argument("id"))?;
        Ok(Response::new(Address { address: format!("{}{}", self.app, wallet_name) }))
    }
}
