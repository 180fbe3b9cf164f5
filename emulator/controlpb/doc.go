// Package controlpb is the generated code of control.proto: the messages and
// services by which the controller, the supervisor and the node processes of
// one run talk over unix sockets. It holds no behaviour, and it is not the
// node contract, which node/CONTRACT.md states. scripts/generate writes it.
//
// A stream may be sent on by one goroutine and received from by another; each
// side serialises its own calls, as grpc-go asks.
package controlpb
