// Package minimise finds a smallest schedule with which a failing run still
// fails: it leaves out faults, churn events and requests by delta debugging
// (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
// IEEE TSE 2002, algorithm ddmin) and writes what is left as a scenario.
//
// It carries out no run itself: the caller's Engine does, in the simulator or
// on real processes. What a run is left with need not be the cause of the
// first failure, only of one of the same property (the slippage of delta
// debugging). One goroutine at a time.
package minimise
