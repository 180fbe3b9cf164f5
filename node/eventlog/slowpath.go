package eventlog

// SlowPath is the Text of an "enter" whose request took Camera's slow path.
const SlowPath = "slow path"
