// Command churnbed-node is one node of an emulated mesh. The supervisor of a
// run starts it; node/CONTRACT.md says how.
package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/host"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "churnbed-node:", err)
		os.Exit(1)
	}
}

func run() error {
	node, err := strconv.ParseUint(os.Getenv("CHURNBED_NODE"), 10, 16)
	if err != nil {
		return fmt.Errorf("read CHURNBED_NODE: %w (see node/CONTRACT.md)", err)
	}
	inc, err := strconv.ParseUint(os.Getenv("CHURNBED_INCARNATION"), 10, 32)
	if err != nil {
		return fmt.Errorf("read CHURNBED_INCARNATION: %w", err)
	}
	address, err := netip.ParseAddr(os.Getenv("CHURNBED_ADDRESS"))
	if err != nil {
		return fmt.Errorf("read CHURNBED_ADDRESS: %w", err)
	}
	fd, err := strconv.ParseUint(os.Getenv("CHURNBED_LOG_FD"), 10, 16)
	if err != nil {
		return fmt.Errorf("read CHURNBED_LOG_FD: %w", err)
	}
	conn, err := grpc.NewClient(os.Getenv("CHURNBED_CONTROL"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("churnbed"))
	if err != nil {
		return fmt.Errorf("dial CHURNBED_CONTROL: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := controlpb.NewControllerClient(conn).Attach(ctx, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("attach to the controller: %w", err)
	}
	return host.Run(ctx, host.Env{
		Node:    core.Peer{ID: core.NodeID(node), Inc: core.Incarnation(inc)},
		Address: address,
		Log:     os.NewFile(uintptr(fd), "log"),
		State:   os.Getenv("CHURNBED_STATE"),
		Stream:  stream,
	})
}
