# An image with churnbed, churnbed-node and the ready scenarios. It runs the demo:
#
#   docker build -t churnbed .
#   docker run --rm --cap-drop ALL --security-opt seccomp=unconfined \
#     --security-opt apparmor=unconfined --security-opt systempaths=unconfined churnbed
#
# No capability at all: a run takes place in namespaces of its own, in a user
# namespace of the container's ordinary user. docs/CONTAINER.md says what each
# option is for, and what takes their place where user namespaces are not
# allowed. scripts/test-image builds this file and tries both.

ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /out/ ./emulator/cmd/churnbed ./node/cmd/churnbed-node

FROM ${BASE_IMAGE}
COPY --from=build /out/ /usr/local/bin/
COPY workloads/scenarios /usr/local/share/churnbed/scenarios
# Run directories: whoever runs the container may write here, without
# CAP_DAC_OVERRIDE. Mount a directory of the host over it to keep them.
WORKDIR /work
RUN chmod 1777 /work
USER 65532:65532
ENTRYPOINT ["churnbed"]
CMD ["run", "/usr/local/share/churnbed/scenarios/demo.yaml"]
