#!/bin/sh
# Fetches the server's write-ahead log from the backup while the server recovers.
#   log.sh get FILE PATH     is the server's restore_command
#   log.sh ahead FILE        fetches that file and the following ones in advance, until one does not exist
#   log.sh end               removes files that were fetched and not used
# pgBackRest can fetch in advance, too, but two of its processes may wait for each other's files, and the server requests its
# last file a second time when its recovery ends. Here, a file that is not there yet is simply fetched.
set -eu
umask 077

sockets=${SOCKET_DIRECTORY:-/run/postgresql}
ahead=${LOG_DIRECTORY:?}
# The most files of 16 MiB that are kept, and the number of processes, several since each waits for the bucket.
most=16
processes=4

fetch() {
  pgbackrest --config="$sockets/pgbackrest.conf" --stanza=space --pg1-path="${PGDATA:?}" --no-archive-async archive-get "$1" "$2"
}
# A file name is a timeline and a number in two parts. The server waits for each file, so the shell computes this without a program.
number() {
  rest=${1#????????}
  number=$((0x${rest%????????} * 256 + 0x${rest#????????}))
}
named() { printf '%s%08X%08X' "$1" $(($2 / 256)) $(($2 % 256)); }
asked() {
  # The file does not exist before the first request, and is empty while that is written.
  read -r asked 2>/dev/null <"$ahead/asked" || asked=0
  asked=$((asked))
}

case ${1:-} in
  get)
    case $2 in *[!0-9A-F]*) ;; *)
      number "$2"
      # The line has a fixed length and overwrites the one before, so that no reader sees half of it.
      printf '0x%014X\n' "$number" 1<>"$ahead/asked"
      if [ -e "$ahead/$2" ] && mv "$ahead/$2" "$3" 2>/dev/null; then exit; fi
      ;;
    esac
    code=0
    fetch "$2" "$3" || code=$?
    # The server regards a failure as the end of the log. That is right if the file does not exist (1); it must stop for any other.
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
            # The server may have fetched it meanwhile, and will not request it again.
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
    # Processes that still fetch cannot write here any more and stop, so nothing is added while the directory is removed.
    mv "$ahead" "$ahead.over"
    rm -rf "$ahead.over"
    ;;
  *)
    echo 'usage: log.sh get FILE PATH | ahead FILE | end' >&2
    exit 2
    ;;
esac
