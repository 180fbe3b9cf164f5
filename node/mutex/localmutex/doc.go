// Package localmutex is mutual exclusion in neighbourhoods of a changing graph:
// J. Daymude, A. Richa, C. Scheideler, "Local Mutual Exclusion for Dynamic,
// Anonymous, Bounded Memory Message Passing Systems", SAND 2022; ALGORITHMS
// section 6. Lock acquires the node itself and all neighbours that stay
// connected meanwhile, Unlock frees them; the lock sets of two nodes never
// intersect. A node knows its neighbours by ports 1 to Delta, itself by port 0;
// its memory is O(Delta), every message has the same length.
//
// Names are those of the paper. As initiator a node sends PREPARE to its lock
// set L; when all are READY it competes: REQUEST-LOCK with a priority drawn
// from 0..K-1. If every WIN is true it sends SET-LOCK, and has the lock when
// all ACK-LOCKs are there; else it competes again. As participant it takes
// applicants A until the first of them requests, which closes the competition
// (others wait on hold in H); when all candidates C have given a priority (P),
// the unique highest wins if the node is not locked, all others lose. A
// candidate leaves by SET-LOCK; when none is left, those on hold may apply.
//
// # Variants
//
// Config.Paper is the published text. It has two traps (ALGORITHMS 6):
//
//   - L1, a deadlock of two connected nodes: each closes its competition with
//     one candidate and answers it; then the other's request makes a second
//     candidate, and each waits for the next priority of one that waits for
//     the other (testdata/local-l1.txt). The remedy: an applicant whose first
//     request comes while some candidate has been answered and has not asked
//     again becomes a candidate and loses at once.
//   - L2: CleanUp is enabled only when phase is set or state is unlock. An
//     initiator in state win that takes part in no competition never learns
//     that the neighbour whose ACK-LOCK it awaits is gone
//     (testdata/local-l2.txt). The remedy: CleanUp is always enabled.
//
// # Ports and epochs
//
// LinkUp opens a port and gives it an epoch, larger than any before; both ends
// tell each other theirs by LINK, and every message names both. One with
// another pair is of a link that is gone, and is dropped: it is never taken for
// one of its successor. A neighbour that shows a newer epoch has lost the link,
// or has restarted; the port begins anew as after LinkDown and LinkUp. On a
// port, each request waits for its answer before the next, and both carry a
// number, so that a repeated datagram is never taken for the next pair's. At
// most two messages are under way on a link: a request of each end, or the
// answer to it. LINK comes on top when a link begins.
//
// The network owes what it owes to Reliable messages of node/core, as long as
// the link is there. A process that dies while its links stay is outside the
// model: its neighbours wait until it is back. Power it off instead.
//
// A request to the node itself is handled in the same step; a lock of nobody
// else competes again only after Config.SelfPace. The owner serialises all
// calls.
package localmutex
