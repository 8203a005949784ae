#!/bin/sh
# Backs up the server from a container beside it: full copies, and incremental ones between them. The server archives its
# write-ahead log itself, so a restore can reach any moment since the oldest copy.
#   backup.sh        makes a copy whenever one is due, until it is stopped
#   backup.sh now    makes one copy
set -eu

here=$(dirname "$0")
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space "$@"; }
# The name of a copy begins with its start time.
newest() { repository repo-ls backup/space --filter="$1" 2>/dev/null | sort | tail -n 1 | cut -c -15; }
# Whether $2 hours have passed since the newest copy whose name matches $1.
is_due() {
  last=$(newest "$1")
  [ -z "$last" ] && return 0
  [ "$(date -u -d "-$2 hours" +%Y%m%d-%H%M%S)" \> "$last" ]
}

once() {
  repository stanza-create
  if is_due '^[0-9-]+F$' "$((${BACKUP_FULL_DAYS:?} * 24))"; then kind=full; else kind=incr; fi
  # A copy is complete when its part of the log is archived, which may take a busy server more than a minute.
  repository "--type=$kind" --archive-timeout=900 backup
  echo "backup: $kind done"
}

sh "$here/backup-settings.sh"
until pg_isready -q -h "$sockets"; do sleep 2; done
if [ "${1:-}" = now ]; then
  once
  exit
fi
trap 'exit 0' TERM INT
# A failed copy is tried again after a minute. `wait` returns at a signal, while a `sleep` in the foreground would delay the trap.
while :; do
  if is_due '^[0-9-]+F(_[0-9-]+[DI])?$' "${BACKUP_HOURS:?}" && ! once; then echo 'backup: failed' >&2; fi
  sleep 60 &
  wait $!
done
