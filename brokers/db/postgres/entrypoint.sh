#!/bin/sh
# Starts the embedded PostgreSQL. The first start prepares the data directory under another name and renames it when it is
# complete, so a start that was killed halfway is repeated. Every start sets the broker's role and its password from the
# mounted file. It does so in single-user mode, so that no listener is open and no password is logged or on a command line.
set -eu
umask 077

programs=${PG_PROGRAMS:-/usr/lib/postgresql/17/bin}
data=${PGDATA:-/var/lib/postgresql/data/17}
password_file=${PASSWORD_FILE:-/etc/space/admin/password}
# The password of the object-storage broker, if the Space has one.
objectstore_file=${OBJECTSTORE_PASSWORD_FILE:-/etc/space/objectstore/password}
tls=${TLS_DIRECTORY:-/etc/space/tls}
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
# The directory with all extensions of the image, and the value with those that tenants may create.
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
    *[!A-Za-z0-9_-]*) fail "$1: the password may contain only letters, digits, _ and -" ;;
  esac
}

password=$(cat "$password_file") || fail "cannot read $password_file"
checked "$password_file" "$password"
objectstore_password=
if [ -e "$objectstore_file" ]; then
  objectstore_password=$(cat "$objectstore_file") || fail "cannot read $objectstore_file"
  checked "$objectstore_file" "$objectstore_password"
fi

# The lock admits one server at a time, in whatever pod, and is held until the last process of that server has ended. A lock
# file of PostgreSQL's own is therefore left over from a killed server. It is removed, since another process of this container
# may have the process id in it, and PostgreSQL would then believe that a server runs and refuse to start.
mkdir -p "$(dirname "$data")"
exec 9>"$data.lock"
if ! flock -n 9; then
  echo 'entrypoint: waiting for another server that uses this data to end' >&2
  flock -w 60 9 || fail 'another server uses the data'
fi
rm -f "$data/postmaster.pid"

# With a backup, changes from before the server listens are archived, too.
sh "$here/backup-settings.sh"
settings=$sockets/pgbackrest.conf
archive_mode=off
if [ -e "$settings" ]; then archive_mode=on; fi

# Reads statements from standard input and ends at the first that fails. `printf` is a builtin of the shell, so the password
# appears in no list of processes, and statements are never logged.
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

# Tenants may create the trusted extensions that the server finds. An extension that is listed but not trusted is refused:
# no tenant could create it, so its entry is a mistake.
offer() {
  control=$all_extensions/$1.control
  [ -e "$control" ] || fail "extension $1 is not in the image"
  grep -Eq '^trusted *= *true' "$control" || fail "extension $1 is not trusted, so no tenant may create it"
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
  # With checksums, a page that the disk has changed is an error and not wrong rows, and pgBackRest tells of it.
  "$programs/initdb" -D "$draft" -U postgres -E UTF8 --locale=C.UTF-8 --data-checksums --auth-local=peer --auth-host=reject >/dev/null
  { role_and_password && cat "$here/registry.sql"; } | single_user "$draft" >/dev/null || fail 'cannot prepare the data'
  mv -T "$draft" "$data"
else
  role_and_password | single_user "$data" >/dev/null || fail 'cannot apply the password'
fi
# A Space that gets an object store later gets its registry at the next start.
if [ -n "$objectstore_password" ] && ! has_objectstore "$data"; then
  single_user "$data" <"$here/objectstore-registry.sql" >/dev/null || fail 'cannot create the registry of the object store'
fi
unset password objectstore_password

hba=$here/pg_hba.conf
if [ -e "$tls/tls.crt" ]; then
  hba=$here/pg_hba.tls.conf
  set -- "$@" -c ssl=on -c ssl_cert_file="$tls/tls.crt" -c ssl_key_file="$tls/tls.key" -c ssl_min_protocol_version=TLSv1.3
fi

if [ $archive_mode = on ]; then
  # A restore begins a timeline and promotes without archiving, so PostgreSQL has not marked the history of it for the archive.
  # Without that file, a later restore finds nothing that this server writes, and begins the same timeline again.
  for history in "$data"/pg_wal/*.history; do
    status=$data/pg_wal/archive_status/$(basename "$history")
    [ ! -e "$history" ] || [ -e "$status.done" ] || : >"$status.ready"
  done
  set -- "$@" -c archive_mode=on -c archive_timeout="${BACKUP_ARCHIVE_SECONDS:-60}s" \
    -c archive_command="pgbackrest --config=$settings --stanza=space archive-push %p"
fi

# Limits the private memory of each process, so that only the query that needs more fails. Shared memory is not counted.
ulimit -d "${SESSION_MEMORY_KIB:-131072}"

# The guard reads this variable, too.
: "${MAX_CONNECTIONS:=$(sed -n 's/^max_connections = //p' "$here/settings.conf")}"
export MAX_CONNECTIONS

# On the socket, the account that the server runs as is the superuser.
printf 'server %s postgres\n' "$(id -un)" >"$sockets/ident.conf"

# The guard runs beside the server, which becomes its parent with the `exec` below. It must not inherit the lock.
perl "$here/guard.pl" "$data" "$sockets" "${PORT:-5432}" "$programs" 9>&- &

exec "$programs/postgres" -D "$data" \
  -c config_file="$here/settings.conf" -c hba_file="$hba" -c ident_file="$sockets/ident.conf" \
  -c listen_addresses="${LISTEN_ADDRESSES:-*}" -p "${PORT:-5432}" \
  -c unix_socket_directories="$sockets" \
  -c max_connections="$MAX_CONNECTIONS" \
  "$@"
