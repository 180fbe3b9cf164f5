package capture

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/wire"
	"churnbed/results"
)

// Offsets in an Ethernet frame with IPv4 without options and UDP (RFC 791,
// RFC 768), which is what nodes send.
const (
	ethernetLen = 14
	ipVersion   = ethernetLen
	ipFragment  = ethernetLen + 6
	ipProtocol  = ethernetLen + 9
	ipSource    = ethernetLen + 12
	ipTarget    = ethernetLen + 16
	udpTarget   = ethernetLen + 20 + 2
	udpLength   = ethernetLen + 20 + 4
	udpData     = ethernetLen + 20 + 8
	protocolUDP = 17
)

// datagram returns the nodes between which a frame's datagram travels, by
// their mesh addresses 10.77.0.0 + id, and its payload; false where the frame
// holds none of ours.
func datagram(b []byte) (from, to core.NodeID, payload []byte, ok bool) {
	if len(b) < udpData || b[12] != 8 || b[13] != 0 || b[ipVersion] != 0x45 || b[ipProtocol] != protocolUDP ||
		binary.BigEndian.Uint16(b[ipFragment:])&0x3fff != 0 || binary.BigEndian.Uint16(b[udpTarget:]) != wire.Port {
		return 0, 0, nil, false
	}
	if b[ipSource] != 10 || b[ipSource+1] != 77 || b[ipTarget] != 10 || b[ipTarget+1] != 77 {
		return 0, 0, nil, false
	}
	length := int(binary.BigEndian.Uint16(b[udpLength:]))
	end := udpData - 8 + length
	if length < 8 || end > len(b) {
		return 0, 0, nil, false
	}
	from = core.NodeID(binary.BigEndian.Uint16(b[ipSource+2:]))
	to = core.NodeID(binary.BigEndian.Uint16(b[ipTarget+2:]))
	return from, to, b[udpData:end], true
}

// Message is a datagram of the algorithm that was seen to leave one node and
// to reach another. Instants are scenario nanoseconds.
type Message struct {
	Kind           string
	From, To       core.NodeID
	Sent, Received int64
}

// maxUnderWay bounds how long, in scenario nanoseconds, a datagram is waited
// for before it counts as lost.
const maxUnderWay = int64(60e9)

// Messages finds the datagrams of the algorithm that both ends captured, by
// their arrival. A datagram that was sent twice arrives from its last sending
// before that. limit bounds their number, 0 for none; more tells that there
// were more.
func Messages(run *results.Run, limit int) (list []Message, more bool, err error) {
	nodes, err := Nodes(run)
	if err != nil {
		return nil, false, err
	}
	type key struct {
		from, to core.NodeID
		payload  string
	}
	sent := make(map[key]int64)
	purge := int64(0)
	_, err = merge(run, nodes, func(p *packet) error {
		from, to, payload, ok := datagram(p.data)
		if !ok {
			return nil
		}
		k := key{from, to, string(payload)}
		switch {
		case p.out && from == p.node:
			f, err := wire.Parse(payload)
			if err == nil && f.Msg != nil && f.Class() == wire.ClassMutex {
				sent[k] = p.at
			}
		case !p.out && to == p.node:
			at, ok := sent[k]
			if !ok {
				return nil
			}
			delete(sent, k)
			if limit > 0 && len(list) == limit {
				more = true
				return nil
			}
			f, err := wire.Parse(payload)
			if err == nil && f.Msg != nil {
				list = append(list, Message{wire.KindName(f.Msg.Kind()), from, to, at, p.at})
			}
		}
		if p.at-purge > maxUnderWay { // what was lost must not pile up
			purge = p.at
			for k, at := range sent {
				if p.at-at > maxUnderWay {
					delete(sent, k)
				}
			}
		}
		return nil
	})
	return list, more, err
}
