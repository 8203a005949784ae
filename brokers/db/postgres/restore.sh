#!/bin/sh
# Puts a backup into an empty volume and lets the server go through its log up to the moment that is asked for, or to the end
# of what there is: `restore.sh [TIME [OPTION…]]`, such as 2026-11-21 10:30:00+00; a TIME that is empty is the end, and options
# are pgBackRest's. Nothing may listen to it, or archive, meanwhile. With STAYS it is for scratch.sh: the server goes on as it
# is, and as nothing of it is kept, no disk is waited for.
set -eu
umask 077

programs=${PG_PROGRAMS:-/usr/lib/postgresql/17/bin}
data=${PGDATA:-/var/lib/postgresql/data/17}
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
here=$(dirname "$0")
draft=$data.restored
log=/tmp/recovery.log
time=${1:-}
[ $# -eq 0 ] || shift

fail() {
  echo "restore: $1" >&2
  exit 1
}

if [ -e "$data/PG_VERSION" ]; then
  [ "$(cat "$data/restored-to" 2>/dev/null)" = "${time:-the end}" ] || fail 'the volume has a database in it, which is not overwritten'
  echo 'restore: done before'
  exit
fi
sh "$here/backup-settings.sh"
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space --pg1-path="$draft" "$@"; }

began=$(date +%s)
said() { echo "restore: $1, $(($(date +%s) - began)) s"; }

[ ! -e "$draft/postmaster.pid" ] || [ -z "${STAYS:-}" ] || fail 'a server runs with it already'
rm -rf "$draft" "$draft.log" "$draft.log.over"
mkdir -p "$draft"
[ -z "$time" ] || set -- --type=time "--target=$time" --target-action=promote "$@"
# More than there are processors are in each other's way.
processors=$(nproc)
[ "$processors" -le 4 ] || processors=4
# Each database is some 300 files, and a disk that is waited for after each takes most of the time. Until the end nothing of
# this is believed, so all of it is waited for at once, there.
LD_PRELOAD=libeatmydata.so repository "$@" --archive-mode=off "--process-max=${PROCESSES:-$processors}" \
  "--recovery-option=restore_command=sh $here/log.sh get %f %p" restore || fail 'the backup cannot be restored: the lines above say why'
said 'the files are there'
# A page of a shell has nothing in it. Where its file is empty, the server does not read each that the log changes. Where the log
# has a page whole, the file grows up to it, so large ones are left as they are, which takes no place on a disk.
[ -z "${STAYS:-}" ] || printf '%s\n' "$@" | sed -n "s|^--db-exclude=|$draft/base/|p" |
  xargs -r sh -c 'find "$@" -type f -size +128k -size -64M -exec truncate -s 0 {} +' sh

export PGDATA="$draft" LOG_DIRECTORY="$draft.log"
mkdir "$LOG_DIRECTORY"
trap 'sh "$here/log.sh" end' EXIT
first=$(sed -n 's/^START WAL LOCATION: .*(file \([0-9A-F]\{24\}\))$/\1/p' "$draft/backup_label")
sh "$here/log.sh" ahead "$first" >/dev/null 2>&1 &
ident=$sockets/ident.conf
printf 'server %s %s\n' "$(id -un)" "${STAYS:-postgres}" >"$ident"
end_of_log() {
  grep -E 'FATAL|PANIC' "$log" >&2 || tail -n 5 "$log" >&2
  fail "the log of changes does not reach ${time:-its end}: name an earlier time"
}
# As the entry point starts it, but for listeners, and nobody asks it anything before it has recovered, for which pg_ctl does
# not wait. It ends with an error where the log ends before the moment that is asked for.
"$programs/pg_ctl" -D "$draft" -w -t "${RECOVERY_SECONDS:-86400}" -l "$log" start -o "-c config_file=$here/settings.conf \
  -c hba_file=${HBA_FILE:-$here/pg_hba.conf} -c ident_file=$ident -c listen_addresses= -c unix_socket_directories=$sockets \
  ${MAX_CONNECTIONS:+-c max_connections=$MAX_CONNECTIONS} -c fsync=off -c archive_mode=off -c hot_standby=off \
  -c log_min_messages=log ${RECOVERY_SETTINGS:-}" >/dev/null || end_of_log
until grep -qx 'ready *' "$draft/postmaster.pid" 2>/dev/null; do
  "$programs/pg_ctl" -D "$draft" status >/dev/null || end_of_log
  sleep 0.1
done
said 'the log is followed'
reached=$(grep -Eo 'last completed transaction was at log time .*' "$log" | tail -n 1 | cut -d ' ' -f 8-)
if [ -n "${STAYS:-}" ]; then
  # Pages that the log changes and a shell has not are meant to be missing. Any other is not.
  shells=$(printf '%s\n' "$@" | sed -n 's/^--db-exclude=//p' | paste -s -d '|')
  if grep -E 'page [0-9]+ of relation ' "$log" | grep -Ev " of relation base/($shells)/" >&2; then
    fail 'the copy lacks these pages: name an earlier time, for which an older copy is taken'
  fi
  echo "restore: done, up to ${reached:-the end of the backup}"
  exit
fi
"$programs/pg_ctl" -D "$draft" -w -m fast stop >/dev/null
# What it was restored with is of no use to it from now on.
: >"$draft/postgresql.auto.conf"
printf '%s' "${time:-the end}" >"$draft/restored-to"
sync -f "$draft"
mv -T "$draft" "$data"
sync -f "$data"
said 'the disk has all of it'
echo "restore: done, up to ${reached:-the end of the backup}"
