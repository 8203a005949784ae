#!/bin/sh
# Restores a backup into an empty volume and replays the log up to a moment, or to its end: `restore.sh [TIME [OPTION…]]`.
# TIME is such as 2026-11-21 10:30:00+00, or empty for the end; options are pgBackRest's. Meanwhile the server neither listens
# nor archives. STAYS is for scratch.sh: the server keeps running, and nothing is synchronised to disk, since nothing is kept.
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
  [ "$(cat "$data/restored-to" 2>/dev/null)" = "${time:-the end}" ] || fail 'the volume already contains a database, which is not overwritten'
  echo 'restore: already done'
  exit
fi
sh "$here/backup-settings.sh"
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space --pg1-path="$draft" "$@"; }

began=$(date +%s)
said() { echo "restore: $1, $(($(date +%s) - began)) s"; }

[ ! -e "$draft/postmaster.pid" ] || [ -z "${STAYS:-}" ] || fail 'a server already runs with it'
rm -rf "$draft" "$draft.log" "$draft.log.over"
mkdir -p "$draft"
case " $* " in
  *' --set='*) ;;
  *)
    way=$(sh "$here/repository.sh" way "$time") || fail 'the backup cannot be restored: the lines above say why'
    copy=${way%% *} way=${way#* }
    set -- "--set=$copy" "--target-timeline=${way%% *}" "$@"
    ;;
esac
[ -z "$time" ] || set -- --type=time "--target=$time" --target-action=promote "$@"
# More processes than processors would only slow each other down.
processors=$(nproc)
[ "$processors" -le 4 ] || processors=4
# Each database is some 300 files, and an fsync after each would take most of the time. Nothing relies on these files before
# the end, so one sync there is enough.
LD_PRELOAD=libeatmydata.so repository "$@" --archive-mode=off "--process-max=${PROCESSES:-$processors}" \
  "--recovery-option=restore_command=sh $here/log.sh get %f %p" restore || fail 'the backup cannot be restored: the lines above say why'
said 'the files are restored'
# Excluded databases are restored as files of zeros. Truncated to nothing, they spare the server reading each page that the log
# changes. Large files stay, since they are sparse and would grow again at the first page that the log has in full.
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
  fail "the write-ahead log does not reach ${time:-its end}: name an earlier time"
}
# The settings are those of the entry point, but without listeners and without a hot standby, so `pg_ctl -w` returns before
# the recovery has ended. The server ends with an error if the log ends before the requested moment.
"$programs/pg_ctl" -D "$draft" -w -t "${RECOVERY_SECONDS:-86400}" -l "$log" start -o "-c config_file=$here/settings.conf \
  -c hba_file=${HBA_FILE:-$here/pg_hba.conf} -c ident_file=$ident -c listen_addresses= -c unix_socket_directories=$sockets \
  ${MAX_CONNECTIONS:+-c max_connections=$MAX_CONNECTIONS} -c fsync=off -c archive_mode=off -c hot_standby=off \
  -c log_min_messages=log ${RECOVERY_SETTINGS:-}" >/dev/null || end_of_log
until grep -qx 'ready *' "$draft/postmaster.pid" 2>/dev/null; do
  "$programs/pg_ctl" -D "$draft" status >/dev/null || end_of_log
  sleep 0.1
done
said 'the log is replayed'
reached=$(grep -Eo 'last completed transaction was at log time .*' "$log" | tail -n 1 | cut -d ' ' -f 8-)
if [ -n "${STAYS:-}" ]; then
  # Missing pages are expected in excluded databases. In any other they are an error.
  shells=$(printf '%s\n' "$@" | sed -n 's/^--db-exclude=//p' | paste -s -d '|')
  if grep -E 'page [0-9]+ of relation ' "$log" | grep -Ev " of relation base/($shells)/" >&2; then
    fail 'the copy lacks these pages: name an earlier time, for which an older copy is taken'
  fi
  echo "restore: done, up to ${reached:-the end of the backup}"
  exit
fi
"$programs/pg_ctl" -D "$draft" -w -m fast stop >/dev/null
# Removes the settings of the recovery.
: >"$draft/postgresql.auto.conf"
printf '%s' "${time:-the end}" >"$draft/restored-to"
sync -f "$draft"
mv -T "$draft" "$data"
sync -f "$data"
said 'everything is on disk'
echo "restore: done, up to ${reached:-the end of the backup}"
