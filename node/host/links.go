package host

import (
	"errors"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/stack"
	"churnbed/node/transport"
)

// carrier follows the node's own interfaces for algorithms that want to know
// which neighbours are linked: the kernel's carrier is the detector.
type carrier struct {
	reader *transport.Links
	links  map[core.NodeID]transport.Interface
	err    error // of a step, while news are read
}

// openLinks begins to follow the interfaces, where the machine wants to know.
func (h *host) openLinks() error {
	if !h.machine.Links() {
		return nil
	}
	r, err := transport.OpenLinks()
	if err != nil {
		return err
	}
	h.carrier = &carrier{reader: r, links: map[core.NodeID]transport.Interface{}}
	h.socket.WaitAlso(r)
	return nil
}

func (h *host) closeLinks() error {
	if h.carrier == nil {
		return nil
	}
	return h.carrier.reader.Close()
}

// follow tells the machine what has become of links. It comes between taking
// a datagram from the kernel and handling it: news of a link are there before
// whatever comes over the link after them.
func (h *host) follow() error {
	l := h.carrier
	if l == nil {
		return nil
	}
	err := l.reader.Read(func(x transport.Interface) {
		text, found := strings.CutPrefix(x.Name, "n")
		id, err := strconv.ParseUint(text, 10, 16)
		if !found || err != nil || int(id) >= len(h.addresses) {
			return
		}
		peer := core.NodeID(id)
		old := l.links[peer]
		l.links[peer] = x
		if old.Up && (!x.Up || x.Downs != old.Downs) {
			h.linkNews(stack.LinkDown{Peer: peer})
			old.Up = false
		}
		if x.Up && !old.Up {
			h.linkNews(stack.LinkUp{Peer: peer})
		}
	})
	return errors.Join(err, l.err)
}

func (h *host) linkNews(in stack.Input) {
	if h.carrier.err == nil && !h.ended {
		h.carrier.err = h.step(h.clock.Now(), in)
	}
}

// sendOver sends a frame over the link to its destination, if there is one.
func (h *host) sendOver(e *stack.Effect) error {
	if h.carrier == nil {
		return nil
	}
	l, ok := h.carrier.links[e.To]
	if !ok || !l.Up {
		return nil
	}
	return h.socket.SendOver(l.Index, h.addresses[e.To], e.Frame.Append)
}
