package eventlog

// SlowPath is the Text of an "enter" whose request took Camera's slow path.
const SlowPath = "slow path"

// UpperBound begins the Text of a "note" when the estimated bound on the
// number of nodes was raised; the number follows.
const UpperBound = "at most nodes: "
