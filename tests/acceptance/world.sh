#!/bin/sh
# tests/acceptance/world.sh NAME COMMAND …: runs a command in a world of its own, so that recordings that look at a whole
# host can go on beside each other: namespaces for processes, mounts, network and names, a Docker daemon with the images of the
# host's, and a clone of the project at its last commit. It stays in .worlds/NAME, where rows are taken from; what the
# command started ends with it. Jars and packages have to be there already: nothing in it reaches another network.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 3; }
root=$(cd "$(dirname "$0")/../.." && pwd)
world=$root/.worlds/$1
shift
if [ ! -d "$world" ]; then
    mkdir -p "$world/docker"
    git clone -q --shared "$root" "$world/plimsoll"
    ln -s "$root/.venv" "$world/plimsoll/.venv"
    mkdir "$world/plimsoll/.cache"
    # Links for what never changes; Airflow's database and the locks are each world's own.
    find "$root/.cache" -mindepth 1 -maxdepth 1 -type d ! -name airflow -exec cp -al {} "$world/plimsoll/.cache/" \;
    docker save $(docker images --format '{{.Repository}}:{{.Tag}}') -o "$world/images.tar"
fi
# shellcheck disable=SC2016  # expanded within
exec unshare --mount --pid --net --ipc --uts --fork --mount-proc --kill-child env -u TMPDIR WORLD="$world" sh -euc '
    mount --make-rprivate /
    mkdir -p /var/lib/docker
    mount --bind "$WORLD/docker" /var/lib/docker
    for folder in /run /tmp /dev/shm; do mount -t tmpfs tmpfs "$folder"; done
    mkdir -p /run/lock /run/netns
    ip link set lo up
    dockerd >"$WORLD/dockerd.log" 2>&1 &
    until docker info >/dev/null 2>&1; do kill -0 $! || { tail -n 5 "$WORLD/dockerd.log" >&2; exit 2; }; sleep 0.3; done
    [ ! -f "$WORLD/images.tar" ] || { docker load -q -i "$WORLD/images.tar" >/dev/null; rm "$WORLD/images.tar"; }
    cd "$WORLD/plimsoll"
    "$@"
' sh "$@"
