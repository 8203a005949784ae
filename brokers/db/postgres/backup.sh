#!/bin/sh
# Backs up the server from a container beside it: full copies, and incremental ones between them. The server archives its
# write-ahead log itself, so a restore can reach any moment since the oldest copy.
#   backup.sh        makes a copy whenever one is due, until it is stopped
#   backup.sh now    makes one copy
set -eu

here=$(dirname "$0")
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
data=${PGDATA:-/var/lib/postgresql/data/17}
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space "$@"; }
# The start time of the newest complete copy whose name matches $1. A name ends with that time and a letter; an incremental
# copy's begins with that of its full one. A copy that was interrupted has a directory in the backup, and is in no list.
newest() {
  repository --output=json info 2>/dev/null |
    perl -MJSON::PP -0777 -ne 'print map { "$_->{label}\n" } map { @{ $_->{backup} } } @{ decode_json $_ }' |
    grep -E "$1" | sort | tail -n 1 | sed 's/.$//; s/.*_//'
}
# Whether $2 hours have passed since the newest copy whose name matches $1.
is_due() {
  last=$(newest "$1")
  [ -z "$last" ] && return 0
  [ "$(date -u -d "-$2 hours" +%Y%m%d-%H%M%S)" \> "$last" ]
}
# Whether the server was restored after that copy. Until there is a newer one, each restore replays the log over the earlier one.
is_outdated() {
  [ -e "$data/restored-to" ] || return 1
  [ "$(date -u -r "$data/restored-to" +%Y%m%d-%H%M%S)" \> "$(newest "$1")" ]
}

# The newest complete copy if pgBackRest has found pages in it that do not match their checksum, and nothing otherwise. A file
# that has not changed since is not read again, and what was found in it then counts in each later copy.
damaged() {
  repository --output=json info 2>/dev/null |
    perl -MJSON::PP -0777 -ne 'for ((map { @{ $_->{backup} } } @{ decode_json $_ })[-1]) { print $_->{label} if $_->{error} }'
}

# Whether the log lacked a file at the last look, such as after a tenant wrote more than could be archived: nothing that came after
# can be restored until there is another copy. A tenant that goes on must not have copies made without a pause.
has_gap() { [ -n "$missing" ] && [ "$missing" != unknown ] && is_due "$any" 1; }

# Tells the database broker of the newest copy, of damaged pages in it, and of the first file that the log lacks since then. Each
# look at the log lists its files, so it is one an hour, and one after each copy, which begins a log without a gap.
any='^[0-9-]+F(_[0-9-]+[DI])?$'
minute=0 looked='' missing=unknown
tell() {
  copied=$(newest "$any")
  if [ -n "$copied" ] && { [ "$copied" != "$looked" ] || [ $((minute % 60)) -eq 0 ]; }; then
    looked=$copied
    missing=$(sh "$here/repository.sh" missing) || missing=unknown
  fi
  minute=$((minute + 1))
  damaged=$(damaged) && [ -n "$copied" ] || damaged=unknown
  options="-c search_path=pg_catalog -c statement_timeout=10s -c space.copied=${copied:+${copied%-*}T${copied#*-}Z}"
  PGCONNECT_TIMEOUT=10 PGOPTIONS="$options -c space.damaged=$damaged -c space.missing=$missing" psql -XAtq -v ON_ERROR_STOP=1 \
    -h "$sockets" -p "${PORT:-5432}" -U postgres -d space_registry -f "$here/backup.sql"
}

# The shell ignores `set -e` in a function that is called within a condition.
once() {
  repository stanza-create || return 1
  if is_due '^[0-9-]+F$' "$((${BACKUP_FULL_DAYS:?} * 24))"; then kind=full; else kind=incr; fi
  # A copy is complete when its part of the log is archived, which may take a busy server more than a minute.
  repository "--type=$kind" --archive-timeout=900 backup || return 1
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
  tell || echo 'backup: the database broker could not be told of the copies' >&2
  if { is_due "$any" "${BACKUP_HOURS:?}" || is_outdated "$any" || has_gap; } && ! once; then echo 'backup: failed' >&2; fi
  sleep 60 &
  wait $!
done
