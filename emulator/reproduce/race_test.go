//go:build race

package reproduce_test

// raceDetector: everything takes ten times as long.
const raceDetector = true
