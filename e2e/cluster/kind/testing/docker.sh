#!/bin/sh
# Imitates the Docker command. Its engine is a directory with a file for each container and network. The file of a container
# has three lines: its network, its label, and whether it runs.
set -eu
cd "$FAKE_ENGINE"
id() { printf '%s' "$1" | sha256sum | cut -c 1-12; }
# Prints the name of the container or network with the name or identifier $2; $1 is the directory.
find_one() {
  for name in $(ls "$1"); do
    if [ "$2" = "$name" ] || [ "$2" = "$(id "$name")" ]; then echo "$name" && return; fi
  done
  echo "Error response from daemon: No such ${1%s}: $2" >&2
  exit 1
}
# The test kills the process that waits here.
pause_at() {
  if [ "${FAKE_PAUSE:-}" = "$1" ]; then touch paused && sleep 600; fi
}
last() { for argument in "$@"; do :; done; echo "$argument"; }

case "$1 ${2:-}" in
  'context inspect') echo unix:///var/run/docker.sock ;;
  'info --format') echo '{"OSType":"linux","CgroupVersion":"2","SecurityOptions":["name=seccomp,profile=default"]}' ;;
  'container ls')
    filter=$(last "$@")
    for name in $(ls containers); do
      case $filter in
        name=*) printf '/%s\n%s\n' "$name" "$name" | grep --extended-regexp --quiet "${filter#name=}" || continue ;;
        label=*) [ "$(sed -n 2p "containers/$name")" = "${filter#label=}" ] || continue ;;
      esac
      id "$name"
    done ;;
  'container inspect') # --format '{{.HostConfig.NetworkMode}}' CONTAINER…
    shift 4
    for one in "$@"; do sed -n 1p "containers/$(find_one containers "$one")"; done ;;
  'inspect --format') sed -n 3p "containers/$(find_one containers "$4")" ;;
  'image inspect') ;;
  'rm --force') # --volumes CONTAINER…
    shift 3
    for one in "$@"; do rm "containers/$(find_one containers "$one")"; done ;;
  'start '* | 'stop '*)
    file="containers/$(find_one containers "$2")"
    running=$([ "$1" = start ] && echo true || echo false)
    printf '%s\n%s\n%s\n' "$(sed -n 1p "$file")" "$(sed -n 2p "$file")" "$running" >"$file" ;;
  'run --rm') # --name NAME --entrypoint cat IMAGE /kind/version
    if [ -e "containers/$4" ]; then echo "docker: Error response from daemon: Conflict. The container name \"/$4\" is already in use" >&2 && exit 125; fi
    printf 'bridge\n\nfalse\n' >"containers/$4"
    pause_at version
    rm "containers/$4"
    echo v1.36.4 ;;
  'cp '*) pause_at copy ;;
  'exec '*) find_one containers "$3" >/dev/null ;;
  'network ls')
    filter=$(last "$@")
    for name in $(ls networks); do
      if echo "$name" | grep --extended-regexp --quiet "${filter#name=}"; then id "$name"; fi
    done ;;
  'network inspect') ;;
  'network create') echo "$*" >"networks/$(last "$@")" ;;
  'network rm')
    shift 2
    for one in "$@"; do
      name=$(find_one networks "$one")
      if grep --line-regexp --quiet "$name" containers/* 2>/dev/null; then echo "error while removing network: network $name has active endpoints" >&2 && exit 1; fi
      rm "networks/$name"
    done ;;
  *) echo "docker: '$*' is not an imitated command" >&2 && exit 1 ;;
esac
