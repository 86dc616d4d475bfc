# Sourced by the scripts beside it.

# Installs redis-server where it is missing, or says how to.
install_redis() {
  command -v redis-server >/dev/null && return
  if ! command -v apt-get >/dev/null; then
    echo "redis-server is missing: the tests need Redis 7 or later (lockrt itself works on 6.2). Install it, so that redis-server is in the PATH, and run this again." >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "redis-server is missing: run \`apt-get update && apt-get install redis-server\` as root, and run this again." >&2
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends redis-server
}
