# Sourced by `run`: the tools and peers that the benchmark needs.

python_peers=(redis==8.1.0 python-redis-lock==4.0.1)
node_peers=(ioredis@5.11.1 redlock@4.2.0 redis-semaphore@5.8.0)

# What apt can install, as `command:package`.
install_tools() {
  local missing=() pair
  for pair in valgrind:valgrind node:nodejs npm:npm python3:python3 taskset:util-linux; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  # Without it no environment can be made.
  python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
  [ ${#missing[@]} -eq 0 ] && return
  if ! command -v apt-get >/dev/null; then
    echo "Missing: install ${missing[*]}, and run this again." >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

install_python() { # folder
  [ "$(cat "$1/installed" 2>/dev/null)" = "${python_peers[*]}" ] && return
  rm -rf "$1"
  python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check "${python_peers[@]}" || return
  echo "${python_peers[*]}" >"$1/installed"
}

install_node() { # folder
  [ "$(cat "$1/installed" 2>/dev/null)" = "${node_peers[*]}" ] && return
  rm -rf "$1"
  mkdir -p "$1" && (cd "$1" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund "${node_peers[@]}") || return
  echo "${node_peers[*]}" >"$1/installed"
}
