# Both binaries and the samples:
#   docker build -t churnbed .
#   docker run --rm --privileged -v "$PWD/runs:/runs" churnbed \
#       run /usr/share/churnbed/workloads/scenarios/demo.yaml --out /runs/demo
# A run makes namespaces and links of its own: that takes --privileged, or
# --cap-add SYS_ADMIN,NET_ADMIN with --security-opt seccomp=unconfined and
# apparmor=unconfined. Nothing of the host's network is touched.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/ \
    ./emulator/cmd/churnbed ./node/cmd/churnbed-node

FROM debian:bookworm-slim
# churnbed looks for churnbed-node beside itself.
COPY --from=build /out/churnbed /out/churnbed-node /usr/local/bin/
COPY --from=build /src/topologies/samples /usr/share/churnbed/topologies/samples
COPY --from=build /src/workloads/scenarios /usr/share/churnbed/workloads/scenarios
COPY --from=build /src/LICENSE /usr/share/doc/churnbed/
WORKDIR /runs
ENTRYPOINT ["churnbed"]
CMD ["doctor"]
