#!/bin/sh
# Fetches the server's log out of the backup while the server recovers.
#   log.sh get FILE PATH     its restore_command
#   log.sh ahead FILE        fetches that file and those after it before they are asked for, until one is not there
#   log.sh end               removes what was fetched and not asked for
# pgBackRest would fetch ahead, too; but of two of its processes each may wait for what the other was told to fetch, and a
# server asks for its last file again as its recovery ends. Here what is not there yet is fetched as if there was no other.
set -eu
umask 077

sockets=${SOCKET_DIRECTORY:-/run/postgresql}
ahead=${LOG_DIRECTORY:?}
# As many files, of 16 MiB, are kept at most; and as many processes fetch them, since each waits for the bucket.
most=16
processes=4

fetch() {
  pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space --pg1-path="${PGDATA:?}" --no-archive-async archive-get "$1" "$2"
}
# A name is a timeline, and a number in two parts. The server waits for each file, so no program is begun to read one.
number() {
  rest=${1#????????}
  number=$((0x${rest%????????} * 256 + 0x${rest#????????}))
}
named() { printf '%s%08X%08X' "$1" $(($2 / 256)) $(($2 % 256)); }
asked() {
  # It is not there before the first, and empty while that is written.
  read -r asked 2>/dev/null <"$ahead/asked" || asked=0
  asked=$((asked))
}

case ${1:-} in
  get)
    case $2 in *[!0-9A-F]*) ;; *)
      number "$2"
      # Always of one length and written over the one before, so that nobody reads half of it.
      printf '0x%014X\n' "$number" 1<>"$ahead/asked"
      if [ -e "$ahead/$2" ] && mv "$ahead/$2" "$3" 2>/dev/null; then exit; fi
      ;;
    esac
    code=0
    fetch "$2" "$3" || code=$?
    # To the server, whatever fails is the end of the log. Of a file that is not there it is (1); of anything else it must stop.
    [ "$code" -le 1 ] || code=255
    exit "$code"
    ;;
  ahead)
    timeline=${2%????????????????}
    number "$2"
    first=$number
    for process in $(seq 0 $((processes - 1))); do
      (
        next=$((first + process))
        while [ -e "$ahead" ]; do
          asked
          if [ "$next" -le "$asked" ]; then
            rm -f "$ahead/$(named "$timeline" "$next")"
            next=$((next + processes))
          elif [ $((next - asked)) -gt "$most" ] && [ $((next - first)) -ge "$most" ]; then
            sleep 0.1
          else
            file=$ahead/$(named "$timeline" "$next")
            fetch "$(named "$timeline" "$next")" "$file.part" 2>/dev/null && mv "$file.part" "$file" || break
            # The server may have been faster, and does not come back for it.
            asked
            [ "$next" -gt "$asked" ] || rm -f "$file"
            next=$((next + processes))
          fi
        done
      ) &
    done
    wait
    ;;
  end)
    # Whoever still fetches finds no place for it, and stops. What is removed is nobody's any more, so it stays empty.
    mv "$ahead" "$ahead.over"
    rm -rf "$ahead.over"
    ;;
  *)
    echo 'usage: log.sh get FILE PATH | ahead FILE | end' >&2
    exit 2
    ;;
esac
