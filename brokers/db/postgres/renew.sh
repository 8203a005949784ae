#!/bin/sh
# Makes the server reload its certificate after the mounted file has changed. If the new one is invalid, the server keeps the
# one in use. The readiness probe runs this.
set -eu

tls=${TLS_DIRECTORY:-/etc/space/tls}
seen=${TMPDIR:-/tmp}/certificate.seen

[ -e "$tls/tls.crt" ] || exit 0
now=$(cksum <"$tls/tls.crt")
[ "$now" != "$(cat "$seen" 2>/dev/null || :)" ] || exit 0
kill -HUP "$(head -n 1 "${PGDATA:-/var/lib/postgresql/data/17}/postmaster.pid")"
printf '%s' "$now" >"$seen"
