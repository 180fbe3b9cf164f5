// Package eventlog is the schema of the logs of a run, their writer and their
// reader. Logs are JSON lines (one object a line, UTF-8), one file a node and
// one for the controller; they are all that checkers and metrics read.
//
// A line is written by one write(2) on a descriptor opened with O_APPEND, so
// that a killed process leaves whole lines, and at most one cut line at the
// end (a full disk), which the reader reports.
//
// Instants are scenario time in integer nanoseconds since the run's zero
// (core.Instant), of one clock for all files of a run. The controller's "epoch"
// line tells when the workload began.
package eventlog

// Kind names what a line tells.
type Kind string

// Kinds of a node's log. "enter" is written after the algorithm granted the
// critical section and before anything else happens; "exit" before the first
// message that lets another node in leaves: overlapping intervals prove a
// violation.
const (
	Start    Kind = "start"    // the process runs; Inc, PID
	Joined   Kind = "joined"   // a member now; Size
	Request  Kind = "request"  // enter() called; Req, No, Queued, CS
	Enter    Kind = "enter"    // in the critical section; Req, No, Asked, Grants
	Exit     Kind = "exit"     // left it; Req, No
	Fenced   Kind = "fenced"   // forced out, or a request given up (State); Req, No
	Dropped  Kind = "dropped"  // local requests given up unasked at a stop; No
	Member   Kind = "member"   // the membership list changed; Peer, Change, Size
	Counters Kind = "counters" // cumulative since process start; Sent, Recv, Size, Usage
	Fidelity Kind = "fidelity" // what the node's probes and timers saw; Probe
	Token    Kind = "token"    // a token came, went or was promised (mutex.Fact): Change, Slot, Order, Req, Peer
	Port     Kind = "port"     // a link that localmutex uses went or came (Change: down, up); Peer
	Note     Kind = "note"     // anything else worth keeping; Text
	Failure  Kind = "failure"  // the node cannot go on; Text
	Leave    Kind = "leave"    // leaving gracefully
	Stop     Kind = "stop"     // the run is over; orderly end of the process
)

// Kinds of the controller's log.
const (
	Epoch     Kind = "epoch"     // workload begins
	Kill      Kind = "kill"      // node killed: T before, After after; Verb, State
	Restart   Kind = "restart"   // node process started again; Inc
	Pause     Kind = "pause"     // SIGSTOP
	Resume    Kind = "resume"    // SIGCONT
	LinkSet   Kind = "link"      // delay, loss, rate, up/down of a link; Link, Text
	Exited    Kind = "exited"    // a node process ended; Text is its status
	Slice     Kind = "slice"     // host figures of one fidelity slice; Host
	Interrupt Kind = "interrupt" // the user asked to stop
	Fault     Kind = "fault"     // an action that was not planned; Text is its rule without "at TIME", Origin
	End       Kind = "end"       // the run is over
)

// Live is the origin of what people did to a run by hand.
const Live = "live"

// Event is one line. Fields that do not belong to its kind are left out.
type Event struct {
	T    int64  `json:"t"`
	Kind Kind   `json:"ev"`
	Node int32  `json:"node"` // -1: the controller itself
	Inc  uint32 `json:"inc,omitempty"`

	Req    string `json:"req,omitempty"`    // "node.inc.ts"
	No     int    `json:"no,omitempty"`     // number of the request in the workload, from 1
	Queued *int64 `json:"queued,omitempty"` // instant of the local arrival, <= T
	CS     int64  `json:"cs,omitempty"`     // intended length of the critical section, ns
	Asked  string `json:"asked,omitempty"`  // ids asked, ranges: "0-4,7"
	Grants int    `json:"grants,omitempty"` // genuine answers, the node itself included
	State  string `json:"state,omitempty"`  // NONE, WAIT or HELD

	Peer    *int32 `json:"peer,omitempty"`
	PeerInc uint32 `json:"pinc,omitempty"`
	Change  string `json:"change,omitempty"` // up, suspected, cleared, failed, left; port: up, down
	Size    int    `json:"size,omitempty"`   // length of the membership list, itself included

	Slot  int    `json:"slot,omitempty"`  // which token
	Order uint64 `json:"order,omitempty"` // of a promise, by the coordinators' count

	Sent  map[string]Count `json:"sent,omitempty"` // by message kind; "" never occurs
	Recv  map[string]Count `json:"recv,omitempty"`
	Probe *Probe           `json:"probe,omitempty"`
	Usage *Usage           `json:"usage,omitempty"` // of real processes

	After int64  `json:"after,omitempty"` // instant just after the deed
	Verb  string `json:"verb,omitempty"`  // crash, poweroff, leave, ...
	// Origin is Live where somebody had it done during the run, "" where the
	// scenario did.
	Origin string `json:"origin,omitempty"`
	Link   string `json:"link,omitempty"` // "a-b"
	PID    int    `json:"pid,omitempty"`
	Text   string `json:"text,omitempty"`
	Host   *Host  `json:"host,omitempty"`
	// KG belongs to the kinds of k-groups.
	KG *Group `json:"kg,omitempty"`
	// Hood belongs to "enter" where a neighbourhood is locked; Asked is then
	// the lock set without the node itself.
	Hood *Hood `json:"hood,omitempty"`
}

// Hood tells how a neighbourhood was locked, and what that took of the node so
// far.
type Hood struct {
	Began    int64  `json:"began"`           // when Lock began, <= T
	First    string `json:"first,omitempty"` // whom it was to lock then: ids, ranges
	Tries    int    `json:"tries"`           // competitions, the last included
	InFlight int    `json:"in_flight"`       // most requests of the node under way at once on one link
	Least    int    `json:"least"`           // bytes of its shortest message, without the frame around it
	Most     int    `json:"most"`            // and of its longest
	State    int    `json:"state"`           // bytes of its largest state at an "enter"
}

// Count counts datagrams of one kind handed to (or taken from) the network.
type Count struct {
	N       int64 `json:"n"`
	Bytes   int64 `json:"bytes"`             // UDP payload
	Retrans int64 `json:"retrans,omitempty"` // how many of N were repetitions
	// Hops counts the frames that this node gave to single links for floods, its
	// own and those of others that it sent on. Other messages are routed by the
	// link layer, which counts their hops.
	Hops int64 `json:"hops,omitempty"`
}

// Usage is what the kernel accounts to a node's process, since it started. Its
// times are real, not scenario time.
type Usage struct {
	CPU    int64 `json:"cpu"`     // processor time, in user mode and in the kernel, ns
	MaxRSS int64 `json:"max_rss"` // most memory in use, bytes, with the pages that it shares with others
	Anon   int64 `json:"anon"`    // memory of its own (anonymous pages), bytes, at present
}

// Probe is what one node's probes and timers saw since the last such line.
// Delay errors are measured less configured one-way delay of the link, in
// scenario nanoseconds, as a histogram over Bounds.
type Probe struct {
	Sent         int64   `json:"sent"`
	Received     int64   `json:"received"`
	Lost         int64   `json:"lost"`       // gaps in the numbering of received probes
	DelayErr     []int64 `json:"delay_err"`  // counts, len(Bounds)+1
	TimerLag     []int64 `json:"timer_lag"`  // counts, len(Bounds)+1: how late timers fired
	RcvbufErrors int64   `json:"rcvbuf_err"` // UDP receive-buffer losses of the namespace since the last line
	MaxErr       int64   `json:"max_err"`    // largest delay error
	SumErr       float64 `json:"sum_err"`    // sum of delay errors, ns
}

// Bounds are the upper bounds (ns) of the histograms in Probe; the last
// bucket is unbounded. Errors below zero count in the first.
var Bounds = [...]int64{
	50e3, 100e3, 200e3, 300e3, 500e3, 700e3, 1e6, 1.5e6, 2e6, 3e6, 4e6, 5e6, 7e6, 10e6,
	15e6, 20e6, 30e6, 50e6, 70e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9,
}

// Host is what the host and the fabric showed over one slice. Durations are
// real (not scenario) time.
type Host struct {
	RealMS      float64 `json:"real_ms"`     // length of the slice
	CPUBusy     float64 `json:"cpu_busy"`    // 0..1 over all cores
	Frames      int64   `json:"frames"`      // frames handed to links
	Dropped     int64   `json:"dropped"`     // dropped by the configured loss
	Unplanned   int64   `json:"unplanned"`   // lost for any other reason (queues, buffers)
	LateP50US   float64 `json:"late_p50_us"` // relay lateness; 0 on netem
	LateP99US   float64 `json:"late_p99_us"`
	ExpectDrops float64 `json:"expect_drops"` // sum of frames x configured loss
	Mutex       int64   `json:"mutex_frames"` // of Frames, by class, where the link layer can tell
	Membership  int64   `json:"membership_frames"`
	Other       int64   `json:"other_frames"`
}
