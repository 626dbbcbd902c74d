#!/bin/sh
# The autopilot demo: builds one image and runs Consul, the app, nginx and Prometheus from it, on a network of their own.
# Needs a Docker engine and a Debian machine: no image is pulled, the base is made with debootstrap from Debian's packages.
set -eu

cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
program="${CONTAINERPILOT_PROGRAM:-$target/debug/containerpilot}"
# The prefix of all names, so that several demos can run at the same time.
demo="${DEMO:-autopilot}"
# The address of this machine at which nginx, Consul and Prometheus are published; empty: they are not.
publish="${DEMO_PUBLISH-127.0.0.1}"
packages=ca-certificates,curl,jq,nginx-light,prometheus,python3

usage() {
    cat >&2 <<END
usage: $0 [run|build|up|scale N|stop N|down]
  run      build, start, follow nginx's log; Ctrl-C removes everything again (the default)
  build    build the image and print its name
  up       build and start: Consul, one app, nginx, Prometheus
  scale N  run N instances of the app
  stop N   stop and remove instance N of the app
  down     remove the containers, the network and the image; the base image stays
END
    exit 2
}

say() { echo "demo: $*" >&2; }

give_up() {
    say "$*"
    exit 1
}

# Runs a command as root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# A short hash of the standard input.
digest() { sha256sum | cut -c 1-12; }

# The base image: the release of this machine, since the program was built with its libc.
base() {
    # shellcheck disable=SC1091 # not ours
    release=$(. /etc/os-release && echo "${ID:-} ${VERSION_CODENAME:-}")
    suite="${release#debian }"
    [ "$suite" != "$release" ] || give_up "the base image is made from Debian's packages, on a Debian machine"
    name="containerpilot-demo-base:$suite-$(echo "$packages" | digest)"
    if ! docker image inspect "$name" >/dev/null 2>&1; then
        command -v debootstrap >/dev/null || as_root apt-get install -y -qq debootstrap >&2
        say "making the base image with debootstrap; this takes some minutes, once"
        mkdir -p "$target/demo"
        root=$(mktemp -d "$target/demo/root.XXXXXX")
        as_root debootstrap --variant=minbase "--include=$packages" "$suite" "$root" >"$target/demo/debootstrap.log" ||
            give_up "debootstrap failed; see $target/demo/debootstrap.log"
        as_root tar -C "$root" --exclude='./dev/*' --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . |
            docker import - "$name" >/dev/null
        as_root rm -rf "$root"
    fi
    echo "$name"
}

build() {
    docker version >/dev/null 2>&1 || give_up "no Docker engine answers"
    [ -x "$program" ] || give_up "there is no $program: build it with cargo build"
    base=$(base)
    consul=$(./scripts/fetch-consul.sh)
    name="containerpilot-demo:$({ echo "$base" && cat "$program" "$consul" examples/autopilot/*; } | digest)"
    if ! docker image inspect "$name" >/dev/null 2>&1; then
        context=$(mktemp -d)
        trap 'rm -rf "$context"' EXIT
        # Without debug information it is a quarter of its size.
        strip -o "$context/containerpilot" "$program"
        cp "$consul" "$context/consul"
        cp -r examples/autopilot "$context/autopilot"
        docker build --build-arg "BASE=$base" -t "$name" -f examples/autopilot/Dockerfile "$context" \
            >"$context/log" 2>&1 || give_up "docker build failed: $(cat "$context/log")"
    fi
    echo "$name"
}

# Starts a container: CONFIGURATION NAME [ARGUMENT OF docker run]...
start() {
    config="$1" host="$2"
    shift 2
    docker run --detach --name "$demo-$host" --hostname "$host" --network "$demo" --network-alias "$host" \
        --label "autopilot=$demo" --env "CONTAINERPILOT=/etc/autopilot/$config.json5" "$@" "$(image)" >/dev/null
}

# The arguments that publish a port: PORT-HERE:PORT-IN-CONTAINER.
published() {
    [ -z "$publish" ] || echo "--publish $publish:$1"
}

# The image of the demo, which is stored as a label of the network.
image() {
    docker network inspect --format '{{ .Labels.image }}' "$demo"
}

# shellcheck disable=SC2046 # no argument or two are meant
up() {
    name=$(build)
    docker network create --label "image=$name" "$demo" >/dev/null
    start consul consul $(published 8500:8500)
    start app app-1
    start nginx nginx $(published 8080:80) $(published 8081:8080)
    start prometheus prometheus $(published 9091:9091)
}

# The numbers of the app's instances.
instances() {
    docker ps --filter "label=autopilot=$demo" --format '{{ .Names }}' | sed -n "s/^$demo-app-//p" | sort -n
}

stop() {
    docker stop "$demo-app-$1" >/dev/null
    docker rm "$demo-app-$1" >/dev/null
}

scale() {
    for number in $(seq "$1"); do
        # A killed container still has the name.
        docker rm "$demo-app-$number" >/dev/null 2>&1 || true
        instances | grep -qx "$number" || start app "app-$number"
    done
    for number in $(instances); do
        [ "$number" -le "$1" ] || stop "$number"
    done
}

down() {
    name=$(image 2>/dev/null) || name=
    containers=$(docker ps --all --quiet --filter "label=autopilot=$demo")
    # shellcheck disable=SC2086 # several words are meant
    [ -z "$containers" ] || docker rm --force $containers >/dev/null
    [ -z "$name" ] || docker network rm "$demo" >/dev/null
    # Fails if another demo still uses the image.
    [ -z "$name" ] || docker rmi "$name" >/dev/null 2>&1 || true
}

guide() {
    cat <<END

The autopilot demo runs. In another terminal:

  which app responds, through nginx:        curl http://$publish:8080/
  run three of them, and try again:         $0 scale 3
  deregister one, and register it again:    docker exec $demo-app-2 containerpilot -maintenance enable (or disable)
  a crash, which nginx notices in 3 s:      docker kill $demo-app-3
  Consul is down, requests still work:      docker restart $demo-consul
  the state of nginx's containerpilot:      docker exec $demo-nginx containerpilot status

  Prometheus, which follows Consul too:     http://$publish:9091/targets
  the app in Consul:                        http://$publish:8500/v1/health/service/app

What follows is nginx's log. Ctrl-C, or make demo-down, removes everything again.

END
}

run() {
    trap 'trap - INT TERM; say "removing everything again"; down' EXIT
    trap 'exit 0' INT TERM
    up
    guide
    docker logs --follow "$demo-nginx" || true
}

[ $# -gt 0 ] || set -- run
case "$1:$#" in
run:1 | build:1 | up:1 | down:1) "$1" ;;
scale:2 | stop:2) "$1" "$2" ;;
*) usage ;;
esac
