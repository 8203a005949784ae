#!/bin/sh
# Prints what the backup contains, and changes nothing.
#   repository.sh copies [LABEL]     the copies of the server, or the databases in one of them: JSON of pgBackRest
#   repository.sh files PATH         the files below PATH, with sizes and times: JSON of pgBackRest
#   repository.sh way [TIME]         how a restore reaches that moment, or the end: way.pl
#   repository.sh missing            the first file that the log lacks between the newest copy and its own end, if it does
#   repository.sh committed FILE     the time of the last transaction in a file of the log, or nothing if it has none
#   repository.sh broken <FILES      those of these files of the log, a line each, that are incomplete
#   repository.sh broken FILE        the same for one file
set -eu
umask 077

programs=${PG_PROGRAMS:-/usr/lib/postgresql/17/bin}
sockets=${SOCKET_DIRECTORY:-/run/postgresql}
repository() { pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space "$@"; }

sh "$(dirname "$0")/backup-settings.sh"
case ${1:-} in
  copies) repository --output=json ${2:+"--set=$2"} info ;;
  files) repository --output=json --recurse repo-ls "$2" ;;
  way)
    seconds=
    [ -z "${2:-}" ] || seconds=$(date -u -d "$2" +%s.%N)
    perl "$(dirname "$0")/way.pl" "$seconds" pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space
    ;;
  missing)
    perl "$(dirname "$0")/way.pl" missing pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space
    ;;
  committed)
    # pg_waldump needs the file under its own name.
    segment=$(basename "$2" | cut -c -24)
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    repository repo-get "$2" >"$place/sealed"
    zstd -dqc "$place/sealed" >"$place/$segment"
    # It ends with an error if the last record continues in the next file, which is usual.
    TZ=UTC "$programs/pg_waldump" --rmgr=Transaction "$place/$segment" 2>/dev/null |
      grep -Eo '(COMMIT|ABORT)( PREPARED)? [0-9-]+ [0-9:.]+' | grep -Eo '[0-9-]+ [0-9:.]+$' | sort | tail -n 1 || :
    ;;
  broken)
    if [ $# -eq 1 ]; then
      # Two run at a time, since each waits for the bucket.
      xargs -r -n 1 -P 2 sh "$0" broken
      exit
    fi
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    { repository repo-get "$2" >"$place/sealed" && zstd -tq "$place/sealed"; } 2>/dev/null || echo "$2"
    ;;
  *)
    echo 'usage: repository.sh copies [LABEL] | files PATH | way [TIME] | missing | committed FILE | broken [FILE]' >&2
    exit 2
    ;;
esac
