#!/bin/sh
# Writes nginx's configuration: `prepare` one without upstreams, `follow` one with the healthy instances of `app`.
set -eu

pid="$DIR/containerpilot-nginx.$CONTAINERPILOT_PID.pid"
# nginx needs at least one upstream: nothing listens at this one.
servers="server 127.0.0.1:1;"

if [ "$1" = follow ]; then
    # nginx can reload when it has written its process id.
    until [ -s "$pid" ]; do sleep 0.1; done
    instances=$(curl -fsS "http://$CONSUL_HTTP_ADDR/v1/health/service/app?passing")
    found=$(echo "$instances" | jq -r '.[].Service | "server \(.Address):\(.Port);"')
    servers="${found:-$servers}"
fi

cat >"$DIR/containerpilot-nginx.new" <<END
pid $pid;
error_log stderr warn;
events {}
http {
    access_log off;
    client_body_temp_path $DIR/containerpilot-nginx.body;
    proxy_temp_path $DIR/containerpilot-nginx.proxy;
    fastcgi_temp_path $DIR/containerpilot-nginx.fastcgi;
    uwsgi_temp_path $DIR/containerpilot-nginx.uwsgi;
    scgi_temp_path $DIR/containerpilot-nginx.scgi;
    upstream app { $servers }
    server {
        listen 127.0.0.1:$NGINX_PORT;
        location / { proxy_pass http://app; }
    }
}
END
mv "$DIR/containerpilot-nginx.new" "$DIR/containerpilot-nginx.conf"

if [ "$1" = follow ]; then
    nginx -e stderr -c "$DIR/containerpilot-nginx.conf" -s reload
    echo "upstreams now:" $servers
fi
