# Sourced by the scripts beside it.

# Installs PostgreSQL and PgBouncer, or the one of them that is named, where they are missing, or says how to. The tests
# start servers of their own; the one that Debian's package starts where there is an init system is in nobody's way.
install_postgres() { # [package..]
  local missing=() wanted=" ${*:-postgresql pgbouncer} "
  if [[ $wanted == *" postgresql "* ]] && ! command -v postgres >/dev/null &&
    ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
    missing+=(postgresql)
  fi
  if [[ $wanted == *" pgbouncer "* ]] && ! command -v pgbouncer >/dev/null && ! [ -x /usr/sbin/pgbouncer ]; then
    missing+=(pgbouncer)
  fi
  [ ${#missing[@]} -eq 0 ] && return
  if ! command -v apt-get >/dev/null; then
    echo "${missing[*]} missing: install PostgreSQL 12 or later, or PgBouncer, as named, so that its programs are in the PATH, and run this again." >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "${missing[*]} missing: run \`apt-get update && apt-get install ${missing[*]}\` as root, and run this again." >&2
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}
