#!/bin/sh
# Makes the healthy instances of `app` nginx's upstreams.
set -eu

instances=$(curl -fsS --retry 5 --retry-connrefused "http://consul:8500/v1/health/service/app?passing")
# nginx shall try everyone that Consul calls healthy, also after a failure: hence max_fails=0.
servers=$(echo "$instances" | jq -r '.[].Service | "server \(.Address):\(.Port) max_fails=0;"')

# No instance at all is more often Consul's trouble than the app's: then the last ones are the best guess.
if [ -z "$servers" ]; then
    echo "no healthy app: keeping the last upstreams"
    exit
fi

echo "$servers" >/etc/autopilot/upstreams.new
mv /etc/autopilot/upstreams.new /etc/autopilot/upstreams.conf

# It has this file once it has written its process id: either it reads the new upstreams now, or it is told to.
until [ -s /run/nginx.pid ]; do sleep 0.1; done
nginx -c /etc/autopilot/nginx.conf -s reload
echo "upstreams now:" $servers
