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
        return format!("{scheme}{}{query}", masked_port(rest));
    };
    let host = masked_port(host);
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}{user}:***@{host}{query}"),
        None => format!("{scheme}***@{host}{query}"),
    }
}

/// `host`, without what stands in the place of its port if that is no number: a password, perhaps,
/// whose host was forgotten.
fn masked_port(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.split('/').next().unwrap_or_default().chars().all(|c| c.is_ascii_digit()) =>
        {
            // The colons of an IPv6 address stand between brackets.
            if name.contains('[') && port.ends_with(']') { host.to_owned() } else { format!("{name}:***") }
        }
        _ => host.to_owned(),
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
            ("redis://host:s3cret", "redis://host:***"),
            ("redis://host:s3cret/0", "redis://host:***"),
            ("redis://u:p@[::1]", "redis://u:***@[::1]"),
            ("redis://[::ab]:7000/1", "redis://[::ab]:7000/1"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
