# The program alone, to be copied into other images; `make image` builds it from what `make dist` made:
#   COPY --from=containerpilot /containerpilot /usr/local/bin/containerpilot
FROM scratch
COPY containerpilot /containerpilot
HEALTHCHECK --interval=10s --timeout=3s CMD ["/containerpilot", "-ready"]
ENTRYPOINT ["/containerpilot"]
