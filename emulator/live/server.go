package live

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
)

// refresh is how often a watcher is told what changed.
const refresh = 50 * time.Millisecond

// Actor is the controller as seen from outside. Its methods may be called
// from any goroutine.
type Actor interface {
	// Act carries out an action of the fault language (a rule without its
	// "at TIME") at once, and says what it did.
	Act(ctx context.Context, action string) (done string, err error)
	// Note logs that somebody laid hands on a node, otherwise than by Act.
	Note(verb string, node uint32, text string)
	// Hands reaches into the sandbox.
	Hands() controlpb.HandsClient
}

// Server makes a run visible: by its control socket, and by its page where
// there is one.
type Server struct {
	picture *Picture
	actor   Actor
	grpc    *grpc.Server
	page    *Page
	tail    *tail
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Serve opens the control socket of a run, and its page where page is not
// nil.
func Serve(picture *Picture, actor Actor, page *Page) (*Server, error) {
	l, err := listen(picture.info.Name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{picture: picture, actor: actor, page: page, grpc: grpc.NewServer(grpc.WaitForHandlers(true)), stop: stop}
	service := &service{s: s, run: ctx}
	controlpb.RegisterLiveServer(s.grpc, service)
	controlpb.RegisterHandsServer(s.grpc, service)
	s.done.Go(func() { _ = s.grpc.Serve(guarded{l}) }) // ends at Stop
	s.tail = newTail(picture)
	s.done.Go(func() { s.tail.run(ctx) })
	if page != nil {
		page.begin(picture, actor, ctx.Done())
		s.done.Go(func() {
			if err := page.server.Serve(page.listener); !errors.Is(err, http.ErrServerClosed) {
				picture.Add(Entry{Text: "the page is gone: " + err.Error()})
			}
		})
	}
	return s, nil
}

// farewell bounds how long onlookers may take to hear that the run is over.
const farewell = 500 * time.Millisecond

// Close tells everybody that the run is over, ends all that goes on and waits
// for it.
func (s *Server) Close() {
	s.stop()
	late := time.AfterFunc(farewell, func() {
		if s.page != nil {
			_ = s.page.server.Close()
		}
		s.grpc.Stop()
	})
	if s.page != nil {
		_ = s.page.server.Shutdown(context.Background()) // late ends it
	}
	s.grpc.GracefulStop()
	late.Stop()
	s.done.Wait()
}

// service implements both services of live.proto.
type service struct {
	controlpb.UnimplementedLiveServer
	controlpb.UnimplementedHandsServer
	s   *Server
	run context.Context //nolint:containedctx // ends with the run, which is longer than any call
}

// until returns a context that ends with a call or with the run.
func (v *service) until(call context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(v.run, cancel)
	return ctx, func() { stop(); cancel() }
}

// ended puts the end of the run in the place of what it did to a call.
func (v *service) ended(err error) error {
	if v.run.Err() != nil {
		return status.Error(codes.Unavailable, "the run has ended")
	}
	return err
}

// Watch implements controlpb.LiveServer.
func (v *service) Watch(req *controlpb.WatchRequest, stream grpc.ServerStreamingServer[controlpb.View]) error {
	send := func(view View) error {
		b, err := json.Marshal(view)
		if err != nil {
			return status.Errorf(codes.Internal, "encode view: %v", err)
		}
		return stream.Send(&controlpb.View{Json: b})
	}
	if req.GetOnce() {
		return send(v.s.picture.View(0))
	}
	return v.s.picture.follow(stream.Context(), v.run.Done(), send)
}

// follow sends the picture, then what changes of it, until ctx or over ends
// or send fails.
func (p *Picture) follow(ctx context.Context, over <-chan struct{}, send func(View) error) error {
	defer p.watch()()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for seen := uint64(0); ; {
		if v := p.View(seen); v.Rev > seen {
			if err := send(v); err != nil {
				return err
			}
			seen = v.Rev
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-over:
			if v := p.View(seen); v.Rev > seen {
				return send(v)
			}
			return nil
		}
	}
}

// Act implements controlpb.LiveServer.
func (v *service) Act(ctx context.Context, req *controlpb.ActRequest) (*controlpb.ActReply, error) {
	done, err := v.s.actor.Act(ctx, req.GetAction())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &controlpb.ActReply{Done: done}, nil
}

// Exec implements controlpb.HandsServer: it passes everything on.
func (v *service) Exec(down grpc.BidiStreamingServer[controlpb.ExecInput, controlpb.ExecOutput]) error {
	first, err := down.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first message must be Start")
	}
	hands := v.s.actor.Hands()
	if hands == nil {
		return status.Error(codes.FailedPrecondition, "the mesh does not stand yet")
	}
	verb := "exec"
	if start.GetTty() {
		verb = "shell"
	}
	v.s.actor.Note(verb, start.GetNode(), strings.Join(start.GetArgv(), " "))
	ctx, cancel := v.until(down.Context())
	defer cancel()
	up, err := hands.Exec(ctx)
	if err != nil {
		return err
	}
	if err := up.Send(first); err != nil {
		return closing(err, up.RecvMsg)
	}
	go func() { // ends with down's context, which ends with this call
		for {
			in, err := down.Recv()
			if err != nil {
				_ = up.CloseSend()
				return
			}
			if up.Send(in) != nil {
				return
			}
		}
	}()
	return v.ended(pass(up.Recv, down.Send))
}

// closing returns the reason why a stream takes no more messages.
func closing(err error, recv func(any) error) error {
	if errors.Is(err, io.EOF) {
		err = recv(new(controlpb.ExecOutput))
	}
	return err
}

// Capture implements controlpb.HandsServer: it passes everything on.
func (v *service) Capture(req *controlpb.CaptureRequest, down grpc.ServerStreamingServer[controlpb.CaptureBatch]) error {
	hands := v.s.actor.Hands()
	if hands == nil {
		return status.Error(codes.FailedPrecondition, "the mesh does not stand yet")
	}
	v.s.actor.Note("pcap", req.GetNode(), "")
	ctx, cancel := v.until(down.Context())
	defer cancel()
	up, err := hands.Capture(ctx, req)
	if err != nil {
		return err
	}
	return v.ended(pass(up.Recv, down.Send))
}

// pass brings messages on until their stream ends.
func pass[M any](recv func() (M, error), send func(M) error) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(m); err != nil {
			return err
		}
	}
}
