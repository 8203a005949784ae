#!/bin/sh
# Writes pgBackRest's configuration if the chart has mounted the credentials for backups; otherwise it writes nothing. Keys are
# only in this file, which is on a volume in memory, and neither in the environment nor on a command line.
set -eu
umask 077

from=${BACKUP_DIRECTORY:-/etc/space/backup}
to=${SOCKET_DIRECTORY:-/run/postgresql}/pgbackrest.conf
[ -e "$from/access-key" ] || exit 0

fail() {
  echo "backup: $1" >&2
  exit 1
}
# A newline within a value would begin another option.
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

# Both containers write the same file, so each writes a temporary one and renames it.
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
# A restore requests each block of a file by itself. Most of the 300 files of a database are small, so files below 4 MiB are
# copied whole, and a restore gets many of them with one request.
repo1-block-size-map=4MiB=64KiB
repo1-block-size-map=16MiB=128KiB
repo1-block-size-map=128MiB=256KiB
repo1-block-size-map=1GiB=1MiB
compress-type=zst
compress-level=1
start-fast=y
archive-async=y
# If more than this waits, the server drops it and continues, and the archive has a gap until the next copy.
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
