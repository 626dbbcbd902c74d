#!/bin/sh
# Writes the healthy instances of `app` as nginx's upstreams.
set -eu

instances=$(curl -fsS --retry 5 --retry-connrefused "http://consul:8500/v1/health/service/app?passing")
# max_fails=0: nginx uses every instance that is healthy in Consul, even after a failed request.
servers=$(echo "$instances" | jq -r '.[].Service | "server \(.Address):\(.Port) max_fails=0;"')

# If there is no instance at all, the problem is more often Consul than the app: keep the last ones.
if [ -z "$servers" ]; then
    echo "no healthy app: keeping the last upstreams"
    exit
fi

echo "$servers" >/etc/autopilot/upstreams.new
mv /etc/autopilot/upstreams.new /etc/autopilot/upstreams.conf

# nginx can reload when it has written its process id.
until [ -s /run/nginx.pid ]; do sleep 0.1; done
nginx -c /etc/autopilot/nginx.conf -s reload
echo "upstreams now:" $servers
