#!/bin/sh
# Runs a temporary server with the state of the Space's server at a moment, from which single databases are copied out.
#   scratch.sh TIME [OPTION…]     restores with restore.sh and leaves the server running
# Most databases are excluded, so they are restored as 300 files of zeros each, for which more than two processes are slower.
# Their missing pages would stop a server, so invalid pages are ignored; restore.sh checks afterwards whose pages they were.
# Pages that the recovery reads are still in memory, so it prefetches none.
# A process in this container can log in through the socket as any role. Nothing outlives the container, so nothing waits for the
# disk, and autovacuum is off, so that no code of a tenant runs by itself.
set -eu
umask 077

sockets=${SOCKET_DIRECTORY:-/run/postgresql}
printf 'local all all peer map=server\n' >"$sockets/scratch_hba.conf"
quick='-c full_page_writes=off -c synchronous_commit=off -c autovacuum=off -c recovery_prefetch=off'
lenient='-c ignore_invalid_pages=on -c log_min_messages=warning -c log_error_verbosity=terse'
STAYS=all PROCESSES=2 HBA_FILE=$sockets/scratch_hba.conf RECOVERY_SETTINGS="$quick $lenient" \
  exec sh "$(dirname "$0")/restore.sh" "$@"
