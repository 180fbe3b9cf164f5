// Command central is a node program that knows nothing of churnbed but
// node/CONTRACT.md and the messages of the control stream: a lock whose server
// is node 0, over plain UDP. It takes a node's place in a test. Nodes do not
// survive the server, nor does the lock survive its holder.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"churnbed/emulator/controlpb"
)

const server = 0

// config is what this program needs of config_json.
type config struct {
	Nodes    int `json:"nodes"`
	Arrivals []struct {
		No int   `json:"no"`
		At int64 `json:"at"`
		CS int64 `json:"cs"`
	} `json:"arrivals"`
}

type node struct {
	id, inc int
	log     *os.File
	control grpc.BidiStreamingClient[controlpb.Report, controlpb.Command]
	socket  *net.UDPConn
	zero    int64
	scale   float64
	cfg     config
	base    netip.Addr // of node 0

	epoch    int64 // scenario time, -1 unknown
	next     int   // arrival
	asking   bool
	inside   bool
	exitAt   int64
	askAgain int64
	stamp    int
	idle     bool

	// of the server
	holder int
	queue  []int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "central:", err)
		os.Exit(1)
	}
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(err)
	}
	return n
}

func run() error {
	n := &node{id: number("CHURNBED_NODE"), inc: number("CHURNBED_INCARNATION"), epoch: -1, holder: -1}
	n.log = os.NewFile(uintptr(number("CHURNBED_LOG_FD")), "log")
	own := netip.MustParseAddr(os.Getenv("CHURNBED_ADDRESS")).As4()
	first := (int(own[2])<<8 | int(own[3])) - n.id
	n.base = netip.AddrFrom4([4]byte{own[0], own[1], byte(first >> 8), byte(first)})
	conn, err := grpc.NewClient(os.Getenv("CHURNBED_CONTROL"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n.control, err = controlpb.NewControllerClient(conn).Attach(ctx, grpc.WaitForReady(true)); err != nil {
		return err
	}
	if err := n.report(&controlpb.Report{What: &controlpb.Report_Hello_{Hello: &controlpb.Report_Hello{
		Node: uint32(n.id), Incarnation: uint32(n.inc), Pid: int32(os.Getpid()), Contract: 1,
	}}}); err != nil {
		return err
	}
	command, err := n.control.Recv()
	if err != nil {
		return err
	}
	n.zero, n.scale = command.GetConfigure().GetZeroMonotonicNs(), command.GetConfigure().GetTimeScale()
	if err := json.Unmarshal(command.GetConfigure().GetConfigJson(), &n.cfg); err != nil {
		return err
	}
	n.write("start", map[string]any{"pid": os.Getpid()})
	if n.socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(own), 7077))); err != nil {
		return err
	}
	defer n.socket.Close()
	n.write("joined", map[string]any{"size": n.cfg.Nodes})
	if err := n.report(&controlpb.Report{What: &controlpb.Report_Joined_{Joined: &controlpb.Report_Joined{Size: uint32(n.cfg.Nodes)}}}); err != nil {
		return err
	}
	return n.loop()
}

func (n *node) loop() error {
	commands := make(chan *controlpb.Command)
	go func() {
		defer close(commands)
		for {
			c, err := n.control.Recv()
			if err != nil {
				return
			}
			commands <- c
		}
	}()
	type datagram struct {
		from int
		text string
	}
	datagrams := make(chan datagram)
	go func() {
		b := make([]byte, 1500)
		for {
			size, from, err := n.socket.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			a, z := from.Addr().As4(), n.base.As4()
			datagrams <- datagram{(int(a[2])<<8 | int(a[3])) - (int(z[2])<<8 | int(z[3])), string(b[:size])}
		}
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case c, ok := <-commands:
			switch {
			case !ok:
				return fmt.Errorf("the controller has gone")
			case c.GetBegin() != nil:
				n.epoch = c.GetBegin().GetEpochNs()
			case c.GetStop() != nil, c.GetLeave() != nil:
				n.write("counters", map[string]any{"size": n.cfg.Nodes})
				n.write("stop", map[string]any{"state": "NONE"})
				if err := n.report(&controlpb.Report{What: &controlpb.Report_Stopped_{Stopped: &controlpb.Report_Stopped{}}}); err != nil {
					return err
				}
				for range commands { // the controller ends the stream
				}
				return nil
			}
		case d := <-datagrams:
			if err := n.received(d.from, d.text); err != nil {
				return err
			}
		case <-tick.C:
			if err := n.timer(); err != nil {
				return err
			}
		}
	}
}

func (n *node) timer() error {
	now := n.now()
	switch {
	case n.epoch < 0:
	case n.inside && now >= n.exitAt:
		n.write("exit", n.request())
		n.inside, n.asking = false, false
		n.next++
		n.send(server, "release")
		return n.changed(controlpb.Report_Changed_NONE)
	case n.asking && !n.inside && now >= n.askAgain:
		n.askAgain = now + 200e6
		n.send(server, "ask")
	case !n.asking && n.next < len(n.cfg.Arrivals) && now >= n.epoch+n.cfg.Arrivals[n.next].At:
		n.asking, n.askAgain, n.idle = true, now+200e6, false
		n.stamp++
		f := n.request()
		f["queued"], f["cs"] = n.epoch+n.cfg.Arrivals[n.next].At, n.cfg.Arrivals[n.next].CS
		n.write("request", f)
		n.send(server, "ask")
		return n.changed(controlpb.Report_Changed_WAIT)
	case !n.asking && n.next == len(n.cfg.Arrivals) && !n.idle:
		n.idle = true
		return n.report(&controlpb.Report{What: &controlpb.Report_Idle_{Idle: &controlpb.Report_Idle{}}})
	}
	return nil
}

func (n *node) received(from int, text string) error {
	switch text {
	case "ask":
		if from != n.holder && !slices.Contains(n.queue, from) {
			n.queue = append(n.queue, from)
		}
		n.grant()
	case "release":
		if from == n.holder {
			n.holder = -1
		}
		n.grant()
	case "granted":
		if !n.asking || n.inside {
			return nil
		}
		n.inside = true
		f := n.request()
		f["asked"], f["grants"] = "0", 1
		n.write("enter", f)
		n.exitAt = n.now() + n.cfg.Arrivals[n.next].CS
		return n.changed(controlpb.Report_Changed_HELD)
	}
	return nil
}

func (n *node) grant() {
	if n.holder < 0 && len(n.queue) > 0 {
		n.holder, n.queue = n.queue[0], n.queue[1:]
		n.send(n.holder, "granted")
	}
}

func (n *node) request() map[string]any {
	return map[string]any{"req": fmt.Sprintf("%d.%d.%d", n.id, n.inc, n.stamp), "no": n.cfg.Arrivals[n.next].No}
}

func (n *node) send(to int, text string) {
	a := n.base.As4()
	host := (int(a[2])<<8 | int(a[3])) + to
	address := netip.AddrFrom4([4]byte{a[0], a[1], byte(host >> 8), byte(host)})
	_, _ = n.socket.WriteToUDPAddrPort([]byte(text), netip.AddrPortFrom(address, 7077)) // as good as lost
}

func (n *node) now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return int64(float64(ts.Nano()-n.zero) / n.scale)
}

func (n *node) write(kind string, fields map[string]any) {
	fields["t"], fields["ev"], fields["node"], fields["inc"] = n.now(), kind, n.id, n.inc
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	if _, err := n.log.Write(append(b, '\n')); err != nil {
		panic(err)
	}
}

func (n *node) report(r *controlpb.Report) error { return n.control.Send(r) }

func (n *node) changed(s controlpb.Report_Changed_State) error {
	return n.report(&controlpb.Report{What: &controlpb.Report_Changed_{Changed: &controlpb.Report_Changed{State: s}}})
}
