package topologies

// Metric is what a shortest path minimises.
type Metric string

const (
	Euclid Metric = "euclid" // least total length, as the reference simulators
	Hops   Metric = "hops"   // fewest links, ties by length
	Delay  Metric = "delay"  // least total configured delay
)
