// Package archtest holds the rules of the architecture as tests over the whole
// module: who may import whom, what the pure packages must not touch, what the
// node's binary must not link, and that each package says what it is. It has no
// code of its own. What a linter can say about one file is in .golangci.yml.
package archtest
