//! Stores of objects of which only gets and puts are used.

use std::fmt;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a fence uses of a store.
#[async_trait]
pub trait GetsAndPuts: fmt::Debug + Send + Sync + 'static {
    /// As the store's `get_opts`.
    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult>;

    /// As the store's `put_opts`.
    async fn put(&self, location: &Path, data: PutPayload, options: PutOptions) -> Result<PutResult>;
}

/// A whole store, whose other calls panic.
#[derive(Debug)]
pub struct Narrow<T>(pub T);

impl<T: fmt::Debug> fmt::Display for Narrow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[async_trait]
impl<T: GetsAndPuts> ObjectStore for Narrow<T> {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get(location, options).await
    }

    async fn put_opts(&self, location: &Path, data: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put(location, data, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unreachable!()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        unreachable!()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        unreachable!()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unreachable!()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!()
    }
}
