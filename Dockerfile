# An image whose entrypoint is containerpilot: start your own from this file.
#   make image BASE=debian:bookworm-slim
# or, with an image of the program at hand:
#   docker build --build-arg BASE=debian:bookworm-slim --tag my-app .
ARG CONTAINERPILOT=containerpilot:latest
ARG BASE=debian:bookworm-slim

FROM ${CONTAINERPILOT} AS containerpilot

FROM ${BASE}
COPY --from=containerpilot /containerpilot /usr/local/bin/containerpilot
# Your own programs and the jobs that run them.
COPY examples/hello.json5 /etc/containerpilot.json5
# Healthy while all required jobs are ready; `containerpilot status` tells more.
HEALTHCHECK --interval=10s --timeout=3s CMD ["containerpilot", "-ready"]
ENTRYPOINT ["containerpilot"]
