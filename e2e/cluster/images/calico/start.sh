#!/bin/bash
# Starts Felix, and writes the CNI configuration only after Felix has reported that it enforces all policies, since the runtime
# starts no pods without that file. It is in the node's /run, so a restarted node begins without it.
set -u
while true; do
  calico-felix # exits once after it has read its configuration
  sleep 0.2
done &

ready() {
  exec 3<>/dev/tcp/127.0.0.1/9099 && printf 'GET /readiness HTTP/1.0\r\n\r\n' >&3 && head -1 <&3 | grep -q ' 20[04] '
} 2>/dev/null
until (ready); do sleep 0.2; done

install -m 755 /opt/cni/bin/calico /host/cni-bin/.calico && mv /host/cni-bin/.calico /host/cni-bin/calico
cp /etc/calico/10-calico.conflist /host/cni-net/.draft && mv /host/cni-net/.draft /host/cni-net/10-calico.conflist
wait
