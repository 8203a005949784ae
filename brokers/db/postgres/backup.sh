#!/bin/sh
# Backs the server up, beside it in its pod: a whole copy now and then, what has changed since in between. Its log of
# changes the server archives by itself, so that a restore may end at any moment since the oldest copy.
#   backup.sh        from time to time, for as long as it is let
#   backup.sh now    once
set -eu

here=$(dirname "$0")
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space "$@"; }
# Names of copies begin with the time at which they began.
newest() { repository repo-ls backup/space --filter="$1" 2>/dev/null | sort | tail -n 1 | cut -c -15; }
# Whether that many hours have gone by since the newest that is named like this.
is_due() {
  last=$(newest "$1")
  [ -z "$last" ] && return 0
  [ "$(date -u -d "-$2 hours" +%Y%m%d-%H%M%S)" \> "$last" ]
}

once() {
  repository stanza-create
  if is_due '^[0-9-]+F$' "$((${BACKUP_FULL_DAYS:?} * 24))"; then kind=full; else kind=incr; fi
  # It waits for the log that belongs to the copy: a busy server may have more than a minute of it still to archive.
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
# What failed is tried again after a minute; a child that is waited for lets a signal through, and `sleep` alone would not.
while :; do
  if is_due '^[0-9-]+F(_[0-9-]+[DI])?$' "${BACKUP_HOURS:?}" && ! once; then echo 'backup: failed' >&2; fi
  sleep 60 &
  wait $!
done
