// Package scenarios holds sample scenarios, and hands out those that a command
// runs by itself. It holds no logic.
package scenarios

import _ "embed"

// Partition is partition.yaml, the scenario of `churnbed reproduce partition`.
//
//go:embed partition.yaml
var Partition []byte

// FairKKills is fairk-kills.yaml, the scenario of `churnbed reproduce fairk-fig6`.
//
//go:embed fairk-kills.yaml
var FairKKills []byte
