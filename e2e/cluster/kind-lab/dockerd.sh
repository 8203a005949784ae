#!/bin/bash
# Starts the Docker engine of the lab in mount, network and process namespaces that `unshare` has created.
set -euo pipefail
lab=$1
mount --make-rprivate /
mount -t proc proc /proc
# dockerd writes a key into /etc/docker, and slirp4netns is its DNS server, so it gets an /etc of its own.
mkdir -p "$lab/etc" "$lab/etc.work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$lab/etc,workdir=$lab/etc.work" /etc
rm -f /etc/resolv.conf && echo nameserver 10.199.0.3 > /etc/resolv.conf
mount -t tmpfs tmpfs /run # so that it does not find a containerd of the machine
ip link set lo up
sysctl --quiet --write net.ipv4.ip_forward=1
export PATH="$lab/wrap:$lab/programs/usr/sbin:$lab/programs/usr/bin:$PATH"
exec dockerd --host "unix://$lab/docker.sock" --data-root "$lab/docker" --exec-root "$lab/exec" \
  --pidfile "$lab/dockerd.pid" --config-file "$lab/daemon.json" \
  --storage-driver overlay2 --oom-score-adjust 0 --exec-opt native.cgroupdriver=cgroupfs \
  --cgroup-parent /space.kind-lab --bip 172.31.255.1/24
