//! URLs without their secrets.

/// `url` without its secrets: what stands between the user name and the host, and what follows `?`.
pub(crate) fn masked(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        // A password may hold an unescaped `?`; then the part before it is no safer.
        Some((front, query)) if !query.contains('@') => (front, if query.is_empty() { "" } else { "?***" }),
        _ => (url, ""),
    };
    let (scheme, rest) = match url.find("://") {
        Some(at) => url.split_at(at + 3),
        None => ("", url),
    };
    // A password may hold an unescaped `@`, so the last one counts.
    let Some((login, host)) = rest.rsplit_once('@') else {
        return format!("{scheme}{rest}{query}");
    };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}{user}:***@{host}{query}"),
        None => format!("{scheme}***@{host}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_url_shows_where_and_never_the_password() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
            ("redis://:s3cret@host", "redis://:***@host"),
            ("redis://shop:s3cret@host:1/0", "redis://shop:***@host:1/0"),
            ("redis://shop:s3@c/r?et@host", "redis://shop:***@host"),
            ("redis://s3cret@host", "redis://***@host"),
            ("unix:///run/redis.sock?pass=s3cret", "unix:///run/redis.sock?***"),
            ("shop:s3cret@host", "shop:***@host"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
