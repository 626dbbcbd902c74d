#!/bin/sh
# Makes every containerpilot in Consul a target of Prometheus, healthy or not, so that one that was killed is shown as down.
set -eu

instances=$(curl -fsS --retry 5 --retry-connrefused "http://consul:8500/v1/health/service/containerpilot")
# containerpilot-app-1 is the instance app-1.
echo "$instances" | jq '[.[].Service | {
    targets: ["\(.Address):\(.Port)"],
    labels: { instance: (.ID | sub("^containerpilot-"; "")) }
}]' >/etc/autopilot/targets.new
mv /etc/autopilot/targets.new /etc/autopilot/targets.json
