package scenario

import (
	"fmt"
	"time"
)

// Spec holds the value of every key, one field a key; keys.go says which
// field is which key and what is allowed. As decoded it may leave derived
// keys at 0 (see Key.Derived); Resolve returns it with every key concrete.
type Spec struct {
	// Run
	Name      string
	Seed      uint64
	Trials    int
	Out       string
	Fabric    string
	TimeScale float64
	Warmup    time.Duration
	Drain     time.Duration

	// Topology
	Topology       string
	TopologyFile   string
	TopologyFormat string
	Nodes          int
	Area           Area
	Radius         float64
	Rows, Cols     int
	Layers         int
	Step           float64
	Rooms          []string // "x,y,w,h:count"
	MinSpacing     float64
	Survivable     bool
	Largest        bool
	WifiOnly       bool
	RTTNodes       int
	RTTRandom      bool
	RTTScale       float64

	// Links
	LinkDelay     time.Duration
	LinkJitter    time.Duration
	LinkJitterDis string
	LinkLoss      float64
	LinkLossModel string
	LinkRate      int64 // bits a second, 0 = unlimited

	// Routing
	Routing     string
	Convergence time.Duration

	// Membership
	Membership            string
	MembershipPeriod      time.Duration
	MembershipPingTimeout time.Duration
	MembershipSuspicion   time.Duration
	MembershipHelpers     int
	MembershipExponent    float64
	MembershipDistance    string

	// Algorithm
	Algorithm        string
	NUpper           int
	K                int
	TokenPlacement   string // "first" or ids
	Replicas         int
	RingPeriod       time.Duration
	RingQuorum       int
	TreeChoice       string
	SuspicionWait    time.Duration
	NUpperFrom       string
	Durable          bool
	SlowPath         string
	TreeFailures     int
	ProbeTimeout     time.Duration
	Release          string
	PaperSnapshot    bool
	PaperReleaseByID bool
	ImitateDeferred  bool
	ImitateLiveSet   bool
	ImitateLocalHop  bool
	ImitateDeparted  bool

	// Devices, groups and routines
	SmartShare      float64
	DeviceGroupSize int
	KGroupF         int
	KGroup          string // fenced, paper
	EpochLength     time.Duration
	Selection       string
	KGroupLeader    string // lowest, near
	Hubs            int    // central nodes (hub)
	LSHFunctions    int
	LSHTables       int
	LSHWidth        float64
	LSHNoise        float64 // m
	LockStrategy    string  // sla, ola
	MonitorPeriod   time.Duration
	MonitorTries    int
	StateEvery      time.Duration
	RoutinesFile    string
	Routines        int
	RoutineDevices  float64
	RoutineConflict float64
	RoutineEvery    time.Duration
	RoutineTakes    time.Duration
	RoutineStates   float64

	// Local mutual exclusion
	LocalPriorities int
	LocalDelta      int
	LocalBackoff    time.Duration
	LocalBackoffMax time.Duration
	LocalApp        string

	// Transport
	Transport string
	RTO       time.Duration
	RTOMin    time.Duration
	RTOMax    time.Duration

	// Workload
	Arrivals       string
	Mean           time.Duration
	IRRatio        float64
	WeibullShape   float64
	Requesters     string
	ZipfExponent   float64
	Requests       int
	Duration       time.Duration
	CS             time.Duration
	CSDistribution string
	Arrival        []string // "at TIME node ID for TIME"

	// Churn and faults
	Churn             string
	TraceFormat       string
	ChurnSpeedup      float64
	ChurnVerb         string
	ChurnInitial      string
	ChurnSample       time.Duration
	ChurnAtBoundaries bool
	ChurnUpMean       time.Duration
	ChurnDownMean     time.Duration
	ChurnHosts        int
	ChurnChoose       string
	ChurnUntil        time.Duration
	DownAtStart       string
	EdgeChurn         float64
	EdgeDownMean      time.Duration
	DegreeBound       int
	Mobility          string
	MobilitySpeed     float64
	MobilityPause     time.Duration
	MobilityStep      time.Duration
	DetectionDelay    time.Duration
	Fault             []string
	Tags              []string // "name=ids"

	// Measurement
	ProbeEvery    time.Duration
	CountersEvery time.Duration
	Settle        time.Duration
	Slice         time.Duration
}

// Area is a rectangle in metres.
type Area struct{ Width, Height float64 }

// String writes the form that ParseArea reads, "15x15".
func (a Area) String() string {
	return formatFloat(a.Width) + "x" + formatFloat(a.Height)
}

// Default returns the specification that nothing was said about.
func Default() Spec {
	var s Spec
	for i := range keys {
		k := &keys[i]
		if k.list {
			continue
		}
		if err := k.set(&s, k.Default); err != nil {
			// The table is a constant of this package; a test decodes it.
			panic(fmt.Sprintf("default of key %s: %v", k.Name, err))
		}
	}
	return s
}
