#!/bin/sh
# Starts the embedded PostgreSQL. The first start prepares a draft of the data directory and renames it when it is
# whole, so one that was killed in the middle begins anew. Every start brings the broker's role and password in line
# with the mounted file, in single-user mode: no listener, nothing logged, nothing on a command line.
set -eu
umask 077

programs=${PG_PROGRAMS:-/usr/lib/postgresql/17/bin}
data=${PGDATA:-/var/lib/postgresql/data/17}
password_file=${PASSWORD_FILE:-/etc/space/admin/password}
# Of the object-storage broker, where the Space has one.
objectstore_file=${OBJECTSTORE_PASSWORD_FILE:-/etc/space/objectstore/password}
tls=${TLS_DIRECTORY:-/etc/space/tls}
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
# All that the image has, and the place where the server looks for those that there are.
all_extensions=${EXTENSIONS_FROM:-/usr/share/postgresql/17/extension.all}
extensions=${EXTENSIONS:-}
here=$(dirname "$0")
draft=$data.draft

fail() {
  echo "entrypoint: $1" >&2
  exit 1
}

checked() {
  case $2 in
    '') fail "$1 is empty" ;;
    *[!A-Za-z0-9_-]*) fail "$1: the password may hold letters, digits, _ and - only" ;;
  esac
}

password=$(cat "$password_file") || fail "cannot read $password_file"
checked "$password_file" "$password"
objectstore_password=
if [ -e "$objectstore_file" ]; then
  objectstore_password=$(cat "$objectstore_file") || fail "cannot read $objectstore_file"
  checked "$objectstore_file" "$objectstore_password"
fi

# One server at a time, in whatever pod: the lock is held until the last of its processes has ended. So what PostgreSQL's
# own lock file says, where one is left, is of a server that was killed. It names a process by a number that one of this
# container has, too, since few have begun: PostgreSQL would take that for a server that runs, and never start again.
mkdir -p "$(dirname "$data")"
exec 9>"$data.lock"
if ! flock -n 9; then
  echo 'entrypoint: waits for the end of another server with this data' >&2
  flock -w 60 9 || fail 'another server has the data'
fi
rm -f "$data/postmaster.pid"

# Where there is a place for backups, what the server does before it listens is archived afterwards, too.
sh "$here/backup-settings.sh"
settings=$sockets/pgbackrest.conf
archive_mode=off
if [ -e "$settings" ]; then archive_mode=on; fi

# Reads statements on standard input; the first that fails ends it. `printf` is of the shell itself, so the password
# is in no process list, and statements are never logged.
single_user() {
  "$programs/postgres" --single -j -D "$1" \
    -c exit_on_error=on -c log_statement=none -c log_min_error_statement=panic -c log_min_duration_statement=-1 \
    -c password_encryption=scram-sha-256 -c shared_preload_libraries= -c max_prepared_transactions=0 \
    -c archive_mode=$archive_mode \
    postgres
}

role_and_password() {
  cat "$here/bootstrap.sql"
  printf "ALTER ROLE space_broker PASSWORD '%s';\n\n" "$password"
  if [ -n "$objectstore_password" ]; then
    cat "$here/objectstore.sql"
    printf "ALTER ROLE space_objectstore PASSWORD '%s';\n\n" "$objectstore_password"
  fi
}

has_objectstore() {
  printf "SELECT datname FROM pg_database WHERE datname = 'space_objectstore';\n\n" | single_user "$1" |
    grep '"space_objectstore"' >/dev/null
}

# A tenant may create what is trusted and there. What is listed and not trusted, no tenant could create, and a person who
# lists it has something else in mind: it is refused.
offer() {
  control=$all_extensions/$1.control
  [ -e "$control" ] || fail "extension $1 is not in the image"
  grep -Eq '^trusted *= *true' "$control" || fail "extension $1 is not trusted: no tenant may have it"
  ln -s "$control" "$all_extensions/$1"--*.sql "$sockets/extension/"
}

if [ -d "$all_extensions" ]; then
  rm -rf "$sockets/extension"
  mkdir -p "$sockets/extension"
  for extension in plpgsql $extensions; do offer "$extension"; done
fi

if [ ! -e "$data/PG_VERSION" ]; then
  echo 'entrypoint: first start' >&2
  rm -rf "$draft"
  "$programs/initdb" -D "$draft" -U postgres -E UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host=reject >/dev/null
  { role_and_password && cat "$here/registry.sql"; } | single_user "$draft" >/dev/null || fail 'cannot prepare the data'
  mv -T "$draft" "$data"
else
  role_and_password | single_user "$data" >/dev/null || fail 'cannot apply the password'
fi
# A Space that was there before its object store gets the registry at the start that brings it.
if [ -n "$objectstore_password" ] && ! has_objectstore "$data"; then
  single_user "$data" <"$here/objectstore-registry.sql" >/dev/null || fail 'cannot make the registry of the object store'
fi
unset password objectstore_password

hba=$here/pg_hba.conf
if [ -e "$tls/tls.crt" ]; then
  hba=$here/pg_hba.tls.conf
  set -- "$@" -c ssl=on -c ssl_cert_file="$tls/tls.crt" -c ssl_key_file="$tls/tls.key" -c ssl_min_protocol_version=TLSv1.3
fi

if [ $archive_mode = on ]; then
  set -- "$@" -c archive_mode=on -c archive_timeout="${BACKUP_ARCHIVE_SECONDS:-60}s" \
    -c archive_command="pgbackrest --config=$settings --stanza=space archive-push %p"
fi

# What one process may have for itself; PostgreSQL tells the query that asks for more, and no other. What all of them share
# is not counted.
ulimit -d "${SESSION_MEMORY_KIB:-131072}"

# The guard reads it, too.
: "${MAX_CONNECTIONS:=$(sed -n 's/^max_connections = //p' "$here/settings.conf")}"
export MAX_CONNECTIONS

# Who is the server's own account in this container is the superuser on its socket.
printf 'server %s postgres\n' "$(id -un)" >"$sockets/ident.conf"

# Beside the server, which is its parent from the next line on; without the lock, which is the server's.
perl "$here/guard.pl" "$data" "$sockets" "${PORT:-5432}" "$programs" 9>&- &

exec "$programs/postgres" -D "$data" \
  -c config_file="$here/settings.conf" -c hba_file="$hba" -c ident_file="$sockets/ident.conf" \
  -c listen_addresses="${LISTEN_ADDRESSES:-*}" -p "${PORT:-5432}" \
  -c unix_socket_directories="$sockets" \
  -c max_connections="$MAX_CONNECTIONS" \
  "$@"
