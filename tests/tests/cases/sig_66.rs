// sig 66
// kind: `&mut` connection argument; Option<&E> with E bounded in where; impl Into<String> + Debug
// key wished: "build:{build_id}"
// contention wished: wait
// trap: &mut borrow lives across the await of the lock; `impl Into<String>` cannot be interpolated
pub trait BuildError {
    fn kind(&self) -> &str;
}
pub struct Conn(u8);

#[allow(clippy::too_many_arguments)]
#[tracing::instrument(skip(conn, build_error, path))]
#[lockrt::distributed_lock(key = "build:{build_id}", ttl_ms = 30_000, on_contention = wait(timeout_ms = 2_000))]
pub async fn finish_build<E>(
    conn: &mut Conn,
    build_id: i32,
    version: &str,
    path: impl Into<String> + std::fmt::Debug,
    build_error: Option<&E>,
) -> anyhow::Result<()>
where
    E: BuildError,
{
    conn.0 = conn.0.wrapping_add(1);
    let path: String = path.into();
    if let Some(e) = build_error {
        anyhow::bail!("{} {} {path}", e.kind(), version);
    }
    Ok(())
}
