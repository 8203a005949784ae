#!/bin/sh
# Imitates kind: changes the directory that docker.sh uses as its engine in the way in which kind changes an engine.
set -eu
cd "$FAKE_ENGINE"
pause_at() {
  if [ "${FAKE_PAUSE:-}" = "$1" ]; then touch paused && sleep 600; fi
}
case "$1 $2" in
  'create cluster') # --config=-
    name=$(sed -n 's/^name: //p')
    node="$name-control-plane" network=${KIND_EXPERIMENTAL_DOCKER_NETWORK:-kind}
    if [ -e "containers/$node" ]; then echo "ERROR: node(s) already exist for a cluster with the name \"$name\"" >&2 && exit 1; fi
    [ -e "networks/$network" ] || echo "network create --ipv6 $network" >"networks/$network"
    pause_at network
    printf '%s\nio.x-k8s.kind.cluster=%s\ntrue\n' "$network" "$name" >"containers/$node"
    pause_at node ;;
  'export kubeconfig' | 'load docker-image') ;;
  *) echo "ERROR: unknown command \"$*\"" >&2 && exit 1 ;;
esac
