package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Messages of Camera's slow path (ALGORITHMS 2.5) and of the probing of peers
// that it learned of (trap H8): kinds 48 to 57. All are of the mutex class.
//
//	TREE-JOIN    tree uvarint                the depth of the receiver, from 1
//	TREE-ACK     tree byte                   a TreeAnswer
//	TREE-START   tree uvarint uvarint byte   level, depth of the sender, 1: adopts
//	TREE-ECHO    tree uvarint byte piece shape
//	             the level that was reached; 1: somebody is beyond it
//	TREE-OK      tree piece set set set set  granted, amnesiac, recent, lives
//	TREE-MORE    tree byte uvarint uvarint   kind, stamp and number of the piece wanted
//	ALIVE        target node, origin node, varint sent
//	ALIVE-ACK    peer, origin node, varint sent
//
//	tree         request uvarint             and the round (from 1)
//	piece        uvarint [uvarint uvarint]   pieces in all; where more than 1:
//	                                         number from 0, stamp
//	shape        uvarint, and so often: node, incarnation, byte depth
//
// Sets are as in the other mutual-exclusion messages. A shape is a subtree
// without its root in preorder: the depth of a node is 1 for a child of the
// sender.
const (
	KindTreeJoin  byte = 48
	KindTreeAck   byte = 49
	KindTreeStart byte = 50
	KindTreeEcho  byte = 51
	KindTreeOK    byte = 52
	KindTreeMore  byte = 53
	KindAlive     byte = 56
	KindAliveAck  byte = 57
)

// MaxTreeDepth bounds the depth of a node in a tree, MaxShapeDepth that of a
// node in a shape, and MaxPieces the pieces of one message.
const (
	MaxTreeDepth  = core.MaxNodes
	MaxShapeDepth = 64
	MaxPieces     = 1 << 12
)

var treeKinds = []kind{
	{KindTreeJoin, "TREE-JOIN", ClassMutex, func(r *Reader) core.Message {
		return &TreeJoin{Tree: readTree(r), Depth: readDepth(r)}
	}},
	{KindTreeAck, "TREE-ACK", ClassMutex, func(r *Reader) core.Message { return readTreeAck(r) }},
	{KindTreeStart, "TREE-START", ClassMutex, func(r *Reader) core.Message {
		return &TreeStart{Tree: readTree(r), Level: readDepth(r), Depth: readDepth(r), Adopt: r.Bool()}
	}},
	{KindTreeEcho, "TREE-ECHO", ClassMutex, func(r *Reader) core.Message {
		m := &TreeEcho{Tree: readTree(r), Level: readDepth(r), More: r.Bool(), Piece: readPiece(r)}
		m.Shape = readShape(r)
		return m
	}},
	{KindTreeOK, "TREE-OK", ClassMutex, func(r *Reader) core.Message {
		return &TreeOK{
			Tree: readTree(r), Piece: readPiece(r),
			Grants: readPeerSet(r), Amnesiac: readPeerSet(r), Recent: readPeerSet(r), Lives: readPeerSet(r),
		}
	}},
	{KindTreeMore, "TREE-MORE", ClassMutex, func(r *Reader) core.Message {
		return &TreeMore{Tree: readTree(r), Of: r.Byte(), Stamp: r.Uvarint(), Number: int(r.Max(MaxPieces-1, "piece"))}
	}},
	{KindAlive, "ALIVE", ClassMutex, func(r *Reader) core.Message {
		return &Alive{Target: r.Node(), Origin: r.Node(), Sent: core.Instant(r.Varint())}
	}},
	{KindAliveAck, "ALIVE-ACK", ClassMutex, func(r *Reader) core.Message {
		return &AliveAck{Peer: r.Peer(), Origin: r.Node(), Sent: core.Instant(r.Varint())}
	}},
}

// Tree names a spanning tree: the request it serves, and the round, from 1,
// in which its root grows it.
type Tree struct {
	ID    core.RequestID
	Round uint64
}

func appendTree(b []byte, t Tree) []byte {
	return binary.AppendUvarint(AppendRequest(b, t.ID), t.Round)
}

func readTree(r *Reader) Tree {
	t := Tree{ID: r.Request(), Round: r.Uvarint()}
	if r.err == nil && t.Round == 0 {
		r.fail("round 0")
	}
	return t
}

func readDepth(r *Reader) int { return int(r.Max(MaxTreeDepth, "depth")) }

// Piece says which part of a message that is too long for one frame this is.
// The zero Piece is a whole message.
type Piece struct {
	Of     int    // pieces in all; 0 or at least 2
	Number int    // from 0
	Stamp  uint64 // the same in all pieces of one message, and in no other of its sender's process
}

func appendPiece(b []byte, p Piece) []byte {
	b = binary.AppendUvarint(b, uint64(p.Of))
	if p.Of == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Number)), p.Stamp)
}

func readPiece(r *Reader) Piece {
	p := Piece{Of: int(r.Max(MaxPieces, "pieces"))}
	if p.Of == 0 {
		return p
	}
	p.Number, p.Stamp = int(r.Max(MaxPieces-1, "piece")), r.Uvarint()
	if r.err == nil && (p.Of == 1 || p.Number >= p.Of) {
		r.fail("piece")
	}
	return p
}

// TreeJoin is the REQUEST as it travels down the tree: the receiver becomes
// the sender's child, at that depth, unless it is in the tree already.
type TreeJoin struct {
	Tree
	Depth int
}

// Kind implements core.Message.
func (*TreeJoin) Kind() byte { return KindTreeJoin }

// AppendPayload implements core.Message.
func (m *TreeJoin) AppendPayload(b []byte) []byte {
	return binary.AppendUvarint(appendTree(b, m.Tree), uint64(m.Depth))
}

// TreeAnswer says what a node is to the one that sent it TreeJoin or TreeStart.
type TreeAnswer byte

const (
	TreeElsewhere TreeAnswer = iota // in the tree, but not its child
	TreeChild                       // its child
	TreeUnknown                     // not in the tree, and not to be
)

// TreeAck answers TreeJoin, and a TreeStart of somebody who is not the parent.
type TreeAck struct {
	Tree
	Answer TreeAnswer
}

// Kind implements core.Message.
func (*TreeAck) Kind() byte { return KindTreeAck }

// AppendPayload implements core.Message.
func (m *TreeAck) AppendPayload(b []byte) []byte {
	return append(appendTree(b, m.Tree), byte(m.Answer))
}

func readTreeAck(r *Reader) *TreeAck {
	m := &TreeAck{Tree: readTree(r), Answer: TreeAnswer(r.Byte())}
	if r.err == nil && m.Answer > TreeUnknown {
		r.fail("answer")
	}
	return m
}

// TreeStart tells a child to grow its subtree by the nodes at depth Level+1.
type TreeStart struct {
	Tree
	Level int
	Depth int  // of the sender
	Adopt bool // the sender takes the place of the receiver's parent
}

// Kind implements core.Message.
func (*TreeStart) Kind() byte { return KindTreeStart }

// AppendPayload implements core.Message.
func (m *TreeStart) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(appendTree(b, m.Tree), uint64(m.Level))
	return appendBool(binary.AppendUvarint(b, uint64(m.Depth)), m.Adopt)
}

// Branch is a node of a shape.
type Branch struct {
	Peer  core.Peer
	Depth int // from 1 to MaxShapeDepth
}

// TreeEcho tells the parent that the sender's subtree has grown to Level.
type TreeEcho struct {
	Tree
	Level int
	More  bool // it has nodes at depth Level+1
	Piece Piece
	Shape []Branch
}

// Kind implements core.Message.
func (*TreeEcho) Kind() byte { return KindTreeEcho }

// AppendPayload implements core.Message.
func (m *TreeEcho) AppendPayload(b []byte) []byte {
	b = appendBool(binary.AppendUvarint(appendTree(b, m.Tree), uint64(m.Level)), m.More)
	b = binary.AppendUvarint(appendPiece(b, m.Piece), uint64(len(m.Shape)))
	for _, s := range m.Shape {
		b = append(AppendPeer(b, s.Peer), byte(s.Depth))
	}
	return b
}

func readShape(r *Reader) []Branch {
	n := r.Count(3)
	if n == 0 || r.err != nil {
		return nil
	}
	shape := make([]Branch, n)
	for i := range shape {
		shape[i] = Branch{Peer: r.Peer(), Depth: int(r.Byte())}
		if d := shape[i].Depth; r.err == nil && (d == 0 || d > MaxShapeDepth) {
			r.fail("depth in a shape")
		}
		if r.err != nil {
			return nil
		}
	}
	return shape
}

// TreeOK tells that the whole subtree of the sender has granted the request.
// Each set ascends by id.
type TreeOK struct {
	Tree
	Piece    Piece
	Grants   []core.Peer // genuine OKs, in the life that gave them
	Amnesiac []core.Peer // OKs that are no grants towards a majority (trap H4a)
	Recent   []core.Peer // requesters that these had granted before and had not seen end
	Lives    []core.Peer // restarted nodes that these had heard of before
}

// Kind implements core.Message.
func (*TreeOK) Kind() byte { return KindTreeOK }

// AppendPayload implements core.Message.
func (m *TreeOK) AppendPayload(b []byte) []byte {
	b = appendPiece(appendTree(b, m.Tree), m.Piece)
	for _, set := range [][]core.Peer{m.Grants, m.Amnesiac, m.Recent, m.Lives} {
		b = appendPeerSet(b, set)
	}
	return b
}

// TreeMore asks for the next piece of a long message.
type TreeMore struct {
	Tree
	Of     byte // kind of the message
	Stamp  uint64
	Number int
}

// Kind implements core.Message.
func (*TreeMore) Kind() byte { return KindTreeMore }

// AppendPayload implements core.Message.
func (m *TreeMore) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(append(appendTree(b, m.Tree), m.Of), m.Stamp)
	return binary.AppendUvarint(b, uint64(m.Number))
}

// Alive asks Target whether it runs. Whoever is not the target sends it on to
// the target.
type Alive struct {
	Target, Origin core.NodeID
	Sent           core.Instant // by the origin's clock
}

// Kind implements core.Message.
func (*Alive) Kind() byte { return KindAlive }

// AppendPayload implements core.Message.
func (m *Alive) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.Target)), uint64(m.Origin))
	return binary.AppendVarint(b, int64(m.Sent))
}

// AliveAck answers Alive the way it came: whoever is not the origin sends it
// on to the origin.
type AliveAck struct {
	Peer   core.Peer // who runs
	Origin core.NodeID
	Sent   core.Instant // of the Alive
}

// Kind implements core.Message.
func (*AliveAck) Kind() byte { return KindAliveAck }

// AppendPayload implements core.Message.
func (m *AliveAck) AppendPayload(b []byte) []byte {
	return binary.AppendVarint(binary.AppendUvarint(AppendPeer(b, m.Peer), uint64(m.Origin)), int64(m.Sent))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
