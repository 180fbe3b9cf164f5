package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
)

func pcapCommand() *cli.Command {
	return &cli.Command{
		Name: "pcap", Usage: "capture the frames that a node sees, for Wireshark", Category: categoryLive, ArgsUsage: "NODE|A-B",
		Description: "Writes pcapng as frames come, until interrupted or the run ends. NODE takes all links of a node, A-B the link\n" +
			"to B as A sees it: what A sends before the link delays or drops it, what it receives after. A capture takes\n" +
			"processor time from the mesh; the log says when there was one.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "o", Usage: "write to `FILE` (default: standard output, if that is no terminal)"},
			&cli.IntFlag{Name: "count", Usage: "end after `N` frames"},
			&cli.DurationFlag{Name: "for", Usage: "end after `TIME` (real time)"},
			runFlag(),
		},
		Action: pcapAction,
	}
}

func pcapAction(c *cli.Context) error {
	arg, err := oneArgument(c, "pcap: want one node or link, such as `churnbed pcap 3 -o node3.pcapng` or `churnbed pcap 3-7 | wireshark -k -i -`")
	if err != nil {
		return err
	}
	req := &controlpb.CaptureRequest{Neighbour: -1}
	a, b, link := strings.Cut(arg, "-")
	if req.Node, err = parseNode(a); err != nil {
		return usageError(err)
	}
	if link {
		id, err := parseNode(b)
		if err != nil {
			return usageError(err)
		}
		req.Neighbour = int32(id)
	}
	file := c.String("o")
	if (file == "" || file == "-") && term.IsTerminal(int(os.Stdout.Fd())) {
		return usageError(errors.New("pcap: standard output is a terminal: write to a file with -o FILE, or pipe into `wireshark -k -i -`"))
	}
	client, r, err := connect(c)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if d := c.Duration("for"); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	stream, err := client.Capture(ctx, req)
	if err != nil {
		return hostError(told(err))
	}
	first, err := stream.Recv()
	if err != nil {
		return usageError(fmt.Errorf("run %s: %w", r.Name, told(err)))
	}
	out := io.WriteCloser(os.Stdout)
	if file != "" && file != "-" {
		if out, err = os.Create(file); err != nil {
			return usageError(fmt.Errorf("pcap: %w", err))
		}
	}
	p := &pcapWriter{node: req.GetNode(), left: c.Int("count"), ids: map[int32]int{}}
	if err := p.begin(out, first, r.Name); err != nil {
		return errors.Join(hostError(err), out.Close())
	}
	fmt.Fprintf(os.Stderr, "capturing at node %d, %d links\n", req.GetNode(), len(first.GetInterfaces()))
	for err == nil && !p.enough {
		var batch *controlpb.CaptureBatch
		if batch, err = stream.Recv(); err == nil {
			err = p.write(batch)
		}
	}
	code := status.Code(err)
	if errors.Is(err, io.EOF) || code == codes.Canceled || code == codes.DeadlineExceeded || code == codes.Unavailable || errors.Is(err, syscall.EPIPE) {
		err = nil // asked to end, or the run has
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return hostError(fmt.Errorf("write capture: %w", told(err)))
	}
	fmt.Fprintf(os.Stderr, "%d frames\n", p.frames)
	if p.lost > 0 {
		fmt.Fprintf(os.Stderr, "%d more came too fast to be read\n", p.lost)
	}
	return nil
}

// pcapWriter writes batches of frames as pcapng.
type pcapWriter struct {
	w      *pcapgo.NgWriter
	node   uint32
	ids    map[int32]int // interface index to its number in the file
	frames int
	left   int // 0: no bound
	enough bool
	lost   uint64
}

func (p *pcapWriter) begin(out io.Writer, first *controlpb.CaptureBatch, run string) error {
	for i, e := range first.GetInterfaces() {
		neighbour := strings.TrimPrefix(e.GetName(), "n")
		intf := pcapgo.NgInterface{
			Name: e.GetName(), Description: fmt.Sprintf("link of node %d to node %s", p.node, neighbour), LinkType: layers.LinkTypeEthernet,
			TimestampResolution: 9, SnapLength: 65536, OS: "Linux",
		}
		var err error
		if i == 0 {
			p.w, err = pcapgo.NewNgWriterInterface(out, intf, pcapgo.NgWriterOptions{
				SectionInfo: pcapgo.NgSectionInfo{Application: "churnbed " + version(), OS: "Linux", Comment: "run " + run + ", node " + strconv.Itoa(int(p.node))},
			})
		} else {
			p.ids[e.GetIndex()], err = p.w.AddInterface(intf)
		}
		if err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
		if i == 0 {
			p.ids[e.GetIndex()] = 0
		}
	}
	if p.w == nil {
		return fmt.Errorf("node %d has no link", p.node)
	}
	return p.w.Flush()
}

func (p *pcapWriter) write(batch *controlpb.CaptureBatch) error {
	for _, f := range batch.GetFrames() {
		direction := pcapgo.NgEpbFlagDirectionInbound
		if f.GetOutgoing() {
			direction = pcapgo.NgEpbFlagDirectionOutbound
		}
		err := p.w.WritePacketWithOptions(gopacket.CaptureInfo{
			Timestamp: time.Unix(0, f.GetAt()), CaptureLength: len(f.GetData()), Length: int(f.GetLength()), InterfaceIndex: p.ids[f.GetInterface()],
		}, f.GetData(), pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: direction}})
		if err != nil {
			return err
		}
		p.frames++
		if p.left > 0 && p.frames == p.left {
			p.enough = true
			break
		}
	}
	p.lost = batch.GetLost()
	return p.w.Flush() // whoever reads along wants it now
}
