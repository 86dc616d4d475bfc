// sig 65
// kind: recursion, by Box::pin(Self::call(..)).await
// key wished: "link:{url}"
// contention wished: wait
// trap: the recursive call asks for the SAME key while holding it: a self-deadlock for wait, an error for reject. A URL as a key holds ':' '/' '?' '%'

#[lockrt::distributed_lock(key = "link:{url}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
pub async fn fetch_link(url: &str, depth: u8) -> anyhow::Result<String> {
    if depth > 2 {
        return Ok(url.to_owned());
    }
    let next = Box::pin(fetch_link(url, depth + 1)).await?;
    Ok(next)
}
