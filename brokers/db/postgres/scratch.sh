#!/bin/sh
# A server that nobody else reaches, with what the Space's had at a moment: what is wanted of it is taken out, and it goes.
#   scratch.sh TIME [OPTION…]     puts it there as restore.sh does, which goes on with it
# Most of what it gets are empty shells of others' databases, 300 files each: more than two processes are in each other's way
# there. Shells lack pages that the log changes, for which a server would stop; restore.sh looks whose they are. What a server
# reads while it recovers is in memory still, so nothing is read ahead.
# Whoever is in its container comes in by the socket, as whatever role they like. Nothing of it outlives the container, so it
# waits for no disk, and no tenant's code runs by itself.
set -eu
umask 077

sockets=${SOCKET_DIRECTORY:-/run/postgresql}
printf 'local all all peer map=server\n' >"$sockets/scratch_hba.conf"
quick='-c full_page_writes=off -c synchronous_commit=off -c autovacuum=off -c recovery_prefetch=off'
lenient='-c ignore_invalid_pages=on -c log_min_messages=warning -c log_error_verbosity=terse'
STAYS=all PROCESSES=2 HBA_FILE=$sockets/scratch_hba.conf RECOVERY_SETTINGS="$quick $lenient" \
  exec sh "$(dirname "$0")/restore.sh" "$@"
