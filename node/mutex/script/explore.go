package script

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"churnbed/node/mutex"
)

// ExploreConfig bounds an exploration.
type ExploreConfig struct {
	Algorithm string
	Lists     [][]int // whom each node lists at every start
	Entries   []int   // how often each node may ask for the critical section
	Crashes   []int   // how often each node may crash; it may always restart
	// Leftover messages of dead processes stay deliverable; nothing is
	// duplicated, and no time passes: no Tick, no failure detection.
	MaxStates int
}

// ExploreResult is what an exploration came to. Schedule leads to the
// violation, if there is one; Complete tells that no state was left out.
type ExploreResult struct {
	States    int
	Complete  bool
	Violation string
	Schedule  []string
}

// choice is one action in a state: deliver message i, or act on node i.
type choice struct {
	verb byte // 'd' deliver, 'e' enter, 'x' exit, 'c' crash, 'r' restart
	i    int
}

// Explore visits the reachable states breadth first, every interleaving of
// deliveries, entries, exits, crashes and restarts. Machines cannot be copied, so
// a state is reached again by replaying its choices.
func Explore(cfg ExploreConfig) ExploreResult {
	type link struct {
		parent int
		choice choice
	}
	links := []link{{parent: -1}}
	seen := map[[sha256.Size]byte]bool{} // by digest, to save memory
	res := ExploreResult{Complete: true}
	path := func(at int) []choice {
		var p []choice
		for ; at > 0; at = links[at].parent {
			p = append(p, links[at].choice)
		}
		slices.Reverse(p)
		return p
	}
	seen[newExplored(cfg).key()] = true
	for at := 0; at < len(links); at++ {
		p := path(at)
		here := newExplored(cfg)
		for _, c := range p {
			here.do(c)
		}
		for n, c := range here.choices() {
			if n > 0 {
				here = newExplored(cfg)
				for _, d := range p {
					here.do(d)
				}
			}
			here.do(c)
			key := here.key()
			if seen[key] {
				continue
			}
			seen[key] = true
			links = append(links, link{at, c})
			if v := here.net.Violation(); v != "" {
				res.States, res.Violation, res.Complete = len(seen), v, false
				again := newExplored(cfg)
				again.net.Trace = func(s string) { res.Schedule = append(res.Schedule, "  "+s) }
				for _, c := range path(len(links) - 1) {
					res.Schedule = append(res.Schedule, "> "+again.name(c))
					again.do(c)
				}
				return res
			}
			if len(seen) >= cfg.MaxStates {
				res.States, res.Complete = len(seen), false
				return res
			}
		}
	}
	res.States = len(seen)
	return res
}

// explored is a net with what is left of the bounds.
type explored struct {
	cfg     ExploreConfig
	net     *Net
	entries []int
	crashes []int
}

func newExplored(cfg ExploreConfig) *explored {
	mk, err := Algorithm(cfg.Algorithm, len(cfg.Lists))
	if err != nil {
		panic(err)
	}
	s := &explored{
		cfg: cfg, net: NewNet(len(cfg.Lists), mk),
		entries: slices.Clone(cfg.Entries), crashes: slices.Clone(cfg.Crashes),
	}
	for k, list := range cfg.Lists {
		s.net.Start(k, list)
	}
	return s
}

func (s *explored) choices() []choice {
	var c []choice
	told := map[string]bool{}
	for i, e := range s.net.Flight {
		if text := string(appendEnvelope(nil, e)); s.net.Nodes[e.To].Up && !told[text] {
			told[text] = true
			c = append(c, choice{'d', i})
		}
	}
	for k, x := range s.net.Nodes {
		switch {
		case !x.Up:
			c = append(c, choice{'r', k})
			continue
		case x.Machine.State() == mutex.None && s.entries[k] > 0:
			c = append(c, choice{'e', k})
		case x.Machine.State() == mutex.Held:
			c = append(c, choice{'x', k})
		}
		if s.crashes[k] > 0 {
			c = append(c, choice{'c', k})
		}
	}
	return c
}

func (s *explored) do(c choice) {
	switch c.verb {
	case 'd':
		s.net.Deliver(c.i)
	case 'e':
		s.entries[c.i]--
		s.net.Step(c.i, mutex.Enter{})
	case 'x':
		s.net.Step(c.i, mutex.Exit{})
	case 'c':
		s.crashes[c.i]--
		s.net.Crash(c.i)
	case 'r':
		s.net.Start(c.i, s.cfg.Lists[c.i])
	}
}

func (s *explored) name(c choice) string {
	switch c.verb {
	case 'd':
		return "deliver " + s.net.Flight[c.i].String()
	case 'e':
		return "enter " + nodeName(c.i)
	case 'x':
		return "exit " + nodeName(c.i)
	case 'c':
		return "crash " + nodeName(c.i)
	default:
		return "restart " + nodeName(c.i)
	}
}

// key is the same for equal states, and for no others as far as SHA-256 goes.
func (s *explored) key() [sha256.Size]byte {
	var b []byte
	for k, x := range s.net.Nodes {
		b = binary.AppendUvarint(b, uint64(s.entries[k]))
		b = binary.AppendUvarint(b, uint64(s.crashes[k]))
		b = binary.AppendUvarint(b, uint64(x.Peer.Inc))
		if x.Up {
			m := x.Machine.AppendState(nil)
			b = binary.AppendUvarint(b, uint64(len(m)+1))
			b = append(b, m...)
		} else {
			b = append(b, 0)
		}
	}
	flight := make([]string, len(s.net.Flight))
	for i, e := range s.net.Flight {
		flight[i] = string(appendEnvelope(nil, e))
	}
	slices.Sort(flight)
	for _, e := range flight {
		b = append(b, e...)
	}
	return sha256.Sum256(b)
}

func appendEnvelope(b []byte, e Envelope) []byte {
	b = append(b, e.Msg.Kind())
	b = binary.AppendUvarint(b, uint64(e.From.ID))
	b = binary.AppendUvarint(b, uint64(e.From.Inc))
	b = binary.AppendUvarint(b, uint64(e.To))
	p := e.Msg.AppendPayload(nil)
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}

func nodeName(k int) string { return "p" + strconv.Itoa(k) }
