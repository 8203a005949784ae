#!/bin/sh
# Writes what pgBackRest has to know, where the chart has mounted a place for backups; else it writes nothing. Keys are in the
# file alone, which lies in memory: not in the environment, and on no command line.
set -eu
umask 077

from=${BACKUP_DIRECTORY:-/etc/space/backup}
to=${SOCKET_DIRECTORY:-/run/postgresql}/pgbackrest.conf
[ -e "$from/access-key" ] || exit 0

fail() {
  echo "backup: $1" >&2
  exit 1
}
# A line's end inside of one would begin an option of its own.
value() {
  text=$(cat "$1") || fail "cannot read $1"
  case $text in
    '' | *'
'*) fail "$1 has to be one line" ;;
  esac
  printf '%s' "$text"
}

access_key=$(value "$from/access-key")
secret_key=$(value "$from/secret-key")
passphrase=$(value "${BACKUP_KEYS_DIRECTORY:-/etc/space/backup-keys}/postgres")

# Each container writes its own, and both are the same.
cat >"$to.$$" <<SETTINGS
[global]
repo1-type=s3
repo1-path=/${BACKUP_S3_PREFIX:?}/postgres
repo1-s3-bucket=${BACKUP_S3_BUCKET:?}
repo1-s3-endpoint=${BACKUP_S3_HOST:?}
repo1-s3-region=${BACKUP_S3_REGION:?}
repo1-s3-uri-style=${BACKUP_S3_URI_STYLE:?}
repo1-storage-port=${BACKUP_S3_PORT:?}
${BACKUP_S3_CA_FILE:+repo1-storage-ca-file=$BACKUP_S3_CA_FILE}
repo1-s3-key=$access_key
repo1-s3-key-secret=$secret_key
repo1-cipher-type=aes-256-cbc
repo1-cipher-pass=$passphrase
repo1-retention-full-type=time
repo1-retention-full=${BACKUP_KEEP_DAYS:?}
repo1-bundle=y
repo1-block=y
# Of a file in blocks a restore asks for each by itself, and most of a database's 300 files are small: those are copied whole, so
# that a restore asks for many at once.
repo1-block-size-map=4MiB=64KiB
repo1-block-size-map=16MiB=128KiB
repo1-block-size-map=128MiB=256KiB
repo1-block-size-map=1GiB=1MiB
compress-type=zst
compress-level=1
start-fast=y
archive-async=y
# Beyond it the server goes on without: what it could not archive is lost to the archive, until the next backup.
archive-push-queue-max=${BACKUP_QUEUE_BYTES:?}
spool-path=/tmp/pgbackrest
lock-path=/tmp/pgbackrest-lock
log-level-file=off
log-level-console=warn

[space]
pg1-path=${PGDATA:-/var/lib/postgresql/data/17}
pg1-socket-path=${SOCKET_DIRECTORY:-/run/postgresql}
pg1-port=${PORT:-5432}
pg1-user=postgres
SETTINGS
mv "$to.$$" "$to"
