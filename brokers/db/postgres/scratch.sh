#!/bin/sh
# A server that nobody else reaches, with what the Space's had at a moment: what is wanted of it is taken out, and it goes.
#   scratch.sh copies [LABEL]           tells which copies there are, or of one its databases, as pgBackRest does: JSON
#   scratch.sh start TIME [OPTION…]     puts it there as restore.sh does, and starts it
# Whoever is in its container comes in by the socket, as whatever role they like. Nothing of it outlives the container, so it
# waits for no disk, and no tenant's code runs by itself.
set -eu
umask 077

programs=${PG_PROGRAMS:-/usr/lib/postgresql/17/bin}
data=${PGDATA:-/var/lib/postgresql/data/17}
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
here=$(dirname "$0")
quick='-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c autovacuum=off'

case ${1:-} in
  copies)
    sh "$here/backup-settings.sh"
    exec pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space --output=json ${2:+"--set=$2"} info
    ;;
  start) shift ;;
  *)
    echo 'usage: scratch.sh copies [LABEL] | start TIME [OPTION…]' >&2
    exit 2
    ;;
esac

RECOVERY_SETTINGS=$quick sh "$here/restore.sh" "$@"
printf 'server %s all\n' "$(id -un)" >"$sockets/ident.conf"
printf 'local all all peer map=server\n' >"$sockets/scratch_hba.conf"
"$programs/pg_ctl" -D "$data" -w -l /tmp/scratch.log start -o "-c config_file=$here/settings.conf \
  -c hba_file=$sockets/scratch_hba.conf -c ident_file=$sockets/ident.conf -c listen_addresses= \
  -c unix_socket_directories=$sockets ${MAX_CONNECTIONS:+-c max_connections=$MAX_CONNECTIONS} -c archive_mode=off $quick" >/dev/null
